import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Workbench } from "../cli/workbench.ts";
import { say, WIRES } from "./wires.ts";

let bench: Workbench;
beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

it.each(["SIGINT", "SIGTERM"] as const)(
  "sluice model serves until %s, and logs what was asked",
  async (signal) => {
    const log = join(bench.folder, "requests.jsonl");
    const child = bench.start(["model", "--port", "0", "--log", log]);
    const [line] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
    const url = /^sluice model listening on (http:\/\/127\.0\.0\.1:\d+)$/.exec(line)?.[1] ?? "";
    const said = await say(url, WIRES[0]!, { texts: ['#script [{"say":"hello"}]'], stream: true });
    expect(said.text).toBe("hello");
    child.kill(signal);
    const [code] = (await once(child, "exit")) as [number];
    expect(code).toBe(0);
    expect(JSON.parse(readFileSync(log, "utf8"))).toMatchObject({
      path: "/v1/messages",
      model: "claude-test",
    });
  },
);

it("names a wrong option", async () => {
  expect((await bench.run(["model", "--port", "x"])).code).toBe(2);
  const ended = await bench.run(["model", "--log", join(bench.folder, "no", "such", "file")]);
  expect(ended.code).toBe(1);
  expect(ended.err).toContain("Cannot write the log");
});
