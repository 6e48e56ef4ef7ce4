import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RunCommand } from "../../src/contract/index.ts";
import { ofType, openEngine, processesWith, readAll, type TestEngine, waitFor } from "../support/engine.ts";

describe.each(["bwrap", "local"])("the standard input of a command in %s", (sandbox) => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine({ defaultSandbox: sandbox });
    await test.engine.create("s", { agent: "scripted" });
  });
  afterEach(() => test.close());

  const run = async (command: RunCommand): Promise<string> => {
    const { commandId } = await test.engine.exec("s", command);
    const where = ({ data }: { data: { command_id: string } }): boolean => data.command_id === commandId;
    await waitFor(test.log, "s", "command.ended", { where });
    return ofType(await readAll(test.log, "s"), "command.output")
      .filter(where)
      .map(({ data }) => data.text)
      .join("");
  };

  it("arrives whole, as text and as bytes, and ends", async () => {
    expect(await run({ command: "cat", stdin: "grüße\nno newline" })).toBe("grüße\nno newline");
    const bytes = Buffer.alloc(3_000_000, Buffer.from([0, 255, 10, 128]));
    const sum = createHash("sha256").update(bytes).digest("hex");
    const stdin = bytes.toString("base64");
    expect(await run({ command: "sha256sum", stdin, stdinEncoding: "base64" })).toContain(sum);
  });

  it("is empty if none is given or if it is empty", async () => {
    expect(await run({ command: "wc -c" })).toContain("0");
    expect(await run({ command: "wc -c", stdin: "" })).toContain("0");
  });

  it("may stay unread, and is in no event", async () => {
    const stdin = "unread-input\n".repeat(50_000);
    expect(await run({ command: "head -c 6; exit 0", stdin })).toBe("unread");
    await expect.poll(() => processesWith(`${test.folder}/spools`)).toEqual([]);
    expect(JSON.stringify(await readAll(test.log, "s"))).not.toContain("unread-input");
  });
});
