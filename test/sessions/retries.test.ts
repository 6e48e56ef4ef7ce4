import { expect, it } from "vitest";
import { ofType, openEngine, readAll, runTurn, script, SCRIPTED } from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

it("two failures of one turn with output in between are both retried", async () => {
  const test = await openEngine({ defaultSandbox: "local" });
  try {
    await test.engine.create("s", { ...SCRIPTED, retries: { tries: 3, backoffMs: 20 } });
    const fail = { fail: { kind: "overloaded", times: 1 } };
    const end = await runTurn(test, "s", script(fail, { shell: "echo hi" }, fail, { say: "done" }));
    expect(end.data.status).toBe("completed");
    const events = await readAll(test.log, "s");
    expect(ofType(events, "turn.retrying").map(({ data }) => data.attempt)).toEqual([1, 1]);
    expectLawful(events);
  } finally {
    await test.close();
  }
});
