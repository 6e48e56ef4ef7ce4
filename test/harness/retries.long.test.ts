import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { ofType, openEngine, readAll, runTurn, script, type TestEngine } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";
import { LED_TO_MODEL } from "../support/model.ts";

const FAILURES = ["rate_limited", "bad_gateway", "overloaded"] as const;

/** Every real CLI retries such failures, or leaves that to us. The retries are events, and the turn completes. */
describe.concurrent("a model that fails once", () => {
  let test: TestEngine;
  let model: ScriptedModel;
  beforeAll(async () => {
    [test, model] = await Promise.all([openEngine({ defaultSandbox: "local" }), createScriptedModel()]);
  });
  afterAll(async () => {
    await test.close();
    await model.close();
  });

  it.for(Object.keys(LED_TO_MODEL) as AgentId[])(
    "%s: 429, 500 and 529 are got over, and told",
    async (id, { skip }) => {
      const { path, reason } = requireAgent(id);
      if (path === undefined) return skip(reason);
      const { model: name, env } = LED_TO_MODEL[id];
      await test.engine.create(id, { agent: id, model: name, env: env(model.url), permissionMode: "bypass" });
      for (const kind of FAILURES) {
        const end = await runTurn(test, id, script({ fail: { kind, times: 1 } }, { say: `over ${kind}` }));
        expect(end.data, `${id} ${kind}`).toMatchObject({ status: "completed" });
      }
      const events = await readAll(test.log, id);
      expectLawful(events);
      expect(assistantTexts(events)).toEqual(FAILURES.map((kind) => `over ${kind}`));
      expect(ofType(events, "turn.retrying").length, "retries are told").toBeGreaterThan(0);
    },
  );
});
