import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { openEngine, readAll, runTurn, type TestEngine } from "../../support/engine.ts";
import { expectLawful } from "../../support/laws.ts";

/**
 * The tersest possible agent: a real process that answers each prompt with one line, without a
 * session of its own, without item starts, deltas, or an end. The daemon adds the missing events.
 */
const terse: Harness<null> = {
  id: "terse",
  title: "Terse",
  detect: async () => ({ installed: true }),
  launch: () => ({ argv: ["/bin/sh", "-c", 'while read -r line; do echo "$line"; done'], env: {} }),
  initial: () => null,
  decode(state, line) {
    if (line.dir !== "out") return { state, facts: [] };
    return {
      state,
      facts: [
        {
          type: "item.completed",
          data: {
            item: {
              item_id: `itm_terse_${line.at}`,
              kind: "message",
              role: "assistant",
              status: "completed",
              content: [{ type: "text", text: line.text }],
            },
          },
        },
        { type: "turn.ended", data: { turn_id: "", status: "completed", stop_reason: "end_turn" } },
      ],
    };
  },
  encode: (_, command) => (command.type === "prompt" ? ["hello there"] : undefined),
  sample: [],
};

describe("seed 004, synthetic events", () => {
  let test: TestEngine;
  let events: SluiceEvent[];
  beforeAll(async () => {
    test = await openEngine({ harnesses: [terse as Harness] });
    await test.engine.create("s", { agent: "terse" });
    await runTurn(test, "s", "hi");
    await test.engine.terminate("s");
    events = await readAll(test.log, "s");
  });
  afterAll(() => test.close());

  const ofAssistant = (type: SluiceEvent["type"]): SluiceEvent[] => {
    const end = events.find(
      (event) => event.type === "item.completed" && event.data.item.role === "assistant",
    );
    if (end?.type !== "item.completed") return [];
    const id = end.data.item.item_id;
    return events.filter((event) => event.type === type && JSON.stringify(event.data).includes(id));
  };

  it("session.started: the agent does not emit an explicit session start", () => {
    expect(events[0]).toMatchObject({ type: "session.started", source: "daemon", synthetic: true });
  });

  it("session.ended: the agent does not emit an explicit session end", () => {
    expect(events.at(-1)).toMatchObject({ type: "session.ended", source: "daemon", synthetic: true });
  });

  it("item.started: the agent does not emit item start events", () => {
    expect(ofAssistant("item.started")).toMatchObject([{ source: "daemon", synthetic: true }]);
  });

  it("item.delta: the agent does not stream, so there is one with the whole before item.completed", () => {
    expect(ofAssistant("item.delta")).toMatchObject([
      { source: "daemon", synthetic: true, data: { delta: "hello there" } },
    ]);
  });

  it("with them, the log of such an agent is as lawful as any", () => {
    expectLawful(events);
  });
});
