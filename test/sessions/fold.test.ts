import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDraft, SpoolLine } from "../../src/contract/index.ts";
import { findHarness } from "../../src/harness/index.ts";
import { recordedContext } from "../../src/harness/recording.ts";
import { admitFact } from "../../src/sessions/turn/rules.ts";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { applyEvent, emptyFold, type SessionFold } from "../../src/sessions/fold/session-fold.ts";
import { startTurn } from "../../src/sessions/turn/turn-start.ts";
import { waitingChange } from "../../src/sessions/fold/waiting.ts";
import {
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";

describe("folds", () => {
  let test: TestEngine;
  let native: string[];
  beforeAll(async () => {
    test = await openEngine();
    await test.engine.create("s", { ...SCRIPTED, retries: { tries: 3, backoffMs: 5 } });
    await runTurn(test, "s", "the built-in performance");
    await runTurn(
      test,
      "s",
      script(
        { fail: { kind: "overloaded", times: 1 } },
        { shell: "seq 1 30" },
        { subagent: { name: "r", steps: [{ say: "in it" }] } },
      ),
    );
    const { turnId } = await say(
      test.engine,
      "s",
      script({ parallel: [{ ask: { shell: "echo a" } }, { shell: "echo b" }] }, { say: "asked" }),
    );
    const { data } = await waitFor(test.log, "s", "permission.requested");
    await test.engine.resolvePermission("s", data.permission_id, { reply: "always", by: "ann" });
    await waitFor(test.log, "s", "turn.ended", { where: (event) => event.data.turn_id === turnId });
    await runTurn(test, "s", script({ say: "last" }));
    const raws = (await readAll(test.log, "s", true))
      .filter((event) => event.source === "agent")
      .map((event) => JSON.stringify(event.raw));
    native = raws.filter((raw, index) => raw !== raws[index - 1]);
  });
  afterAll(() => test.close());

  it("a snapshot is the fold from the beginning", async () => {
    const row = await test.log.find("s");
    const events = await readAll(test.log, "s");
    const fold = emptyFold();
    for (const event of events.slice(0, row?.snapshot?.at))
      applyEvent(fold, event as EventDraft, event.sequence, Date.parse(event.time));
    expect(row?.snapshot?.state).toEqual(fold);
  });

  it("any prefix folds alike through JSON, so a snapshot may stand anywhere", async () => {
    const events = await readAll(test.log, "s");
    const apply = (fold: SessionFold, from: number, to: number): SessionFold => {
      for (const event of events.slice(from, to))
        applyEvent(fold, structuredClone(event) as EventDraft, event.sequence, Date.parse(event.time));
      return fold;
    };
    const whole = apply(emptyFold(), 0, events.length);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: events.length }), (cut) => {
        const restored = JSON.parse(JSON.stringify(apply(emptyFold(), 0, cut))) as SessionFold;
        expect(apply(restored, cut, events.length)).toEqual(whole);
      }),
    );
  });

  it("a spool decoded in any chunking gives the same events", () => {
    const decode = (cuts: readonly number[]): EventDraft[] => {
      const harness = findHarness("scripted");
      const fold = emptyFold();
      const events: EventDraft[] = [];
      fold.inbox.push({ inputId: "inp_1", turnId: "turn_1", content: [] });
      let drafts = new Drafts(fold, 0);
      startTurn(fold, drafts);
      let state = harness.initial(recordedContext("scripted"));
      for (const [index, text] of native.entries()) {
        if (cuts.includes(index)) {
          events.push(...drafts.events);
          drafts = new Drafts(fold, 0);
          state = JSON.parse(JSON.stringify(state)) as unknown;
        }
        const line: SpoolLine = { dir: "out", text, at: index };
        const decoded = harness.decode(state, line);
        state = decoded.state;
        for (const fact of decoded.facts) admitFact(fold, drafts, fact, { spec: SCRIPTED, raw: text, line });
        const waiting = waitingChange(fold);
        if (waiting) drafts.add(waiting);
      }
      return [...events, ...drafts.events];
    };
    const uncut = decode([]);
    expect(uncut.length).toBeGreaterThan(50);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: native.length })), (cuts) => {
        expect(decode(cuts)).toEqual(uncut);
      }),
      { numRuns: 50 },
    );
  });
});
