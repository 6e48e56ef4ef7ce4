import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createLocalProvider } from "../../src/sandbox/local/provider.ts";
import type { SandboxProvider } from "../../src/sandbox/port.ts";
import {
  openEngine,
  readAll,
  ofType,
  runTurn,
  say,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

/** More sessions than one round recovers at once. */
const SLOW = Array.from({ length: 12 }, (_, index) => `slow-${index}`);
const ASKED = script({ question: { prompt: "go on?", options: ["yes", "no"] } }, { say: "done" });

/** The local provider, slow to connect to most sandboxes of the earlier server. */
function slowly(root: string, isSlow: (session: string) => boolean, until: Promise<void>): SandboxProvider {
  const local = createLocalProvider({ root });
  return {
    id: local.id,
    isolated: false,
    detect: () => local.detect(),
    create: (spec, claim) => local.create(spec, claim),
    list: async () => (await local.list?.()) ?? [],
    async connect(id, claim) {
      const known = (await local.list?.())?.find((sandbox) => sandbox.id === id);
      if (isSlow(known?.session ?? "")) await until;
      return local.connect(id, claim);
    },
  };
}

describe("an engine that recovers sessions in the background", () => {
  let test: TestEngine;
  afterEach(() => test.close());

  it("starts at once, and a call waits for its own session alone", { timeout: 60_000 }, async () => {
    test = await openEngine({ defaultSandbox: "local", startsAtOnce: 4 });
    for (const id of [...SLOW, "quick"]) {
      await test.engine.create(id, { agent: "scripted" });
      await say(test.engine, id, ASKED);
    }
    for (const id of [...SLOW, "quick"]) await waitFor(test.log, id, "turn.waiting");
    await test.engine.create("rested", { agent: "scripted" });

    let goOn: (() => void) | undefined;
    const held = new Promise<void>((resolve) => (goOn = resolve));
    const root = join(test.folder, "sandboxes");
    const providers = [slowly(root, (session) => session.startsWith("slow"), held)];
    try {
      await test.restart({ providers, defaultSandbox: "local", recoversBeside: true });
      const { engine } = test;
      await runTurn(test, "rested", script({ say: "here" }));
      expect(await engine.info("quick")).toMatchObject({ status: "waiting" });

      let isToldOfSlow = false;
      const told = engine.info("slow-11").then((info) => {
        isToldOfSlow = true;
        return info;
      });
      const [ask] = ofType(await readAll(test.log, "quick"), "question.requested");
      await engine.resolveQuestion("quick", ask?.data.question_id ?? "", { answers: [["yes"]] });
      expect(await waitFor(test.log, "quick", "turn.ended")).toMatchObject({ data: { status: "completed" } });
      expect(isToldOfSlow).toBe(false);

      goOn?.();
      expect(await told).toMatchObject({ status: "waiting" });
      for (const id of SLOW) expect(await engine.info(id)).toMatchObject({ status: "waiting" });
    } finally {
      goOn?.();
    }
  });
});
