import { afterAll, beforeAll, expect, it } from "vitest";
import type { LogLine } from "../../src/sessions/deps.ts";
import { ofType, openEngine, readAll, runTurn, script, type TestEngine } from "../support/engine.ts";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let test: TestEngine;
const lines: LogLine[] = [];
beforeAll(async () => {
  test = await openEngine({ defaultSandbox: "local", logger: (line) => lines.push(line) });
});
afterAll(() => test.close());

it("an image that cannot be stored is logged by the server, and stays in the session's log", async () => {
  await test.engine.create("s", { agent: "scripted" });
  await runTurn(test, "s", script({ say: "made" }));
  // A file in place of the folder of images: not even root can write below it.
  await (await test.engine.files("s")).write("/mnt/session/uploads/.images", "in the way");
  const content = [{ type: "image", path: `data:image/png;base64,${PIXEL}` } as const];
  await test.engine.send("s", {
    content: [...content, { type: "text", text: script({ say: "seen" }) }],
    via: "test",
  });
  await expect.poll(async () => (await test.engine.info("s")).status, { timeout: 30_000 }).toBe("idle");
  expect(lines).toContainEqual(
    expect.objectContaining({ level: "warn", message: "a picture could not be stored", session: "s" }),
  );
  const inputs = ofType(await readAll(test.log, "s"), "input.accepted");
  expect(inputs.at(-1)?.data.content[0]).toEqual(content[0]);
});
