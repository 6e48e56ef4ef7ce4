import { afterEach, beforeEach, expect, it } from "vitest";
import { openEngine, runTurn, script, SCRIPTED, type TestEngine } from "../support/engine.ts";

let test: TestEngine;
beforeEach(async () => {
  test = await openEngine();
});
afterEach(() => test.close());

it("promise 3: an event that was read once reads the same for ever", async () => {
  await test.engine.create("s", SCRIPTED);
  const bodies = async (): Promise<string[]> => {
    const all: string[] = [];
    for (;;) {
      const page = await test.log.read("s", { after: all.length, limit: 500, raw: true });
      if (page.length === 0) return all;
      all.push(...page.map((event) => `${event.body} ${event.raw ?? ""}`));
    }
  };
  await runTurn(test, "s", "one");
  const first = await bodies();
  await runTurn(test, "s", script({ shell: "true" }, { say: "x".repeat(50_000) }));
  await test.restart();
  expect((await bodies()).slice(0, first.length)).toEqual(first);
  await test.engine.terminate("s");
  expect((await bodies()).slice(0, first.length)).toEqual(first);
});
