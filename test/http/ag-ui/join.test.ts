import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agUi, type AgUiState, type AgUiView } from "../../../src/dialects/ag-ui/index.ts";
import { toMessages } from "../../../src/dialects/ag-ui/messages.ts";
import type { StoredEventText } from "../../../src/dialects/port.ts";
import { readPast } from "../../../src/http/ag-ui/history.ts";
import { toPrelude } from "../../../src/http/ag-ui/read.ts";
import { readStateAt } from "../../../src/http/stream/cursor.ts";
import { expectTellable, tellAll, type Told } from "../../dialects/ag-ui/oracle.ts";
import { shortStory } from "../../dialects/ag-ui/stories.ts";
import { script } from "../../support/engine.ts";
import { type AgUiBench, input, openAgUi } from "./ag-ui-bench.ts";
import { type Heard, hearBoth } from "./listeners.ts";

let bench: AgUiBench;
beforeAll(async () => {
  bench = await openAgUi();
});
afterAll(async () => {
  await bench.close();
});

const PROMPT = script(
  { think: "hm" },
  { say: "a b c", chunks: 3 },
  { parallel: [{ shell: "echo one" }, { shell: "echo two" }] },
  { plan: [{ content: "p", status: "pending", priority: "medium" }] },
  { subagent: { name: "r", steps: [{ think: "in" }, { say: "inner words" }, { shell: "echo sub" }] } },
  { write: { path: "f.txt", content: "x" } },
  { ask: { shell: "echo allowed" } },
  { say: "end" },
);

describe("a reader that joins a run in its middle (AG-22)", () => {
  it("has the same messages as a reader from the start, at any join position", async () => {
    const thread = "cut";
    await bench.run(input(thread, "hello"));
    const told = await bench.run(input(thread, PROMPT, { state: { mine: 1 } }));
    const { outcome } = told.at(-1) as unknown as { outcome: { interrupts: { id: string }[] } };
    const resume = outcome.interrupts.map(({ id }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved: true },
    }));
    await bench.run(input(thread, "", { messages: [], resume }));
    const { log } = bench.test;
    const row = await log.find(thread);
    if (!row) throw new Error("no thread");
    const events = await log.read(thread, { after: 0, limit: row.head });
    const view = { agent: "scripted", thread };
    let joins = 0;
    for (let cut = 1; cut < row.head; cut += 1) {
      const state = await readStateAt(log, { session: thread, dialect: agUi, view }, cut);
      if (!state.run) continue;
      const past = await readPast(log, { ...row, head: cut }, { ...view, inputs: true });
      await expectSame(events, { cut, state, past });
      joins += 1;
    }
    expect(joins).toBeGreaterThan(30);
  });

  it("has them in every generated log", async () => {
    await fc.assert(
      fc.asyncProperty(shortStory, fc.nat(), async (events, at) => {
        const view = { agent: "claude", thread: "thread-1" };
        const cut = (at % events.length) + 1;
        let state = agUi.initial(view);
        for (const event of events.slice(0, cut)) state = agUi.project(state, event).state;
        if (!state.run) return;
        const begin = events.findLastIndex(
          ({ type, sequence }) => type === "turn.started" && sequence <= cut,
        );
        const whole = { ...view, inputs: true };
        const messages = toMessages(tellAll(whole, events.slice(0, cut)).told);
        const turn = tellAll(whole, events.slice(begin, cut)).told;
        await expectSame(events, { cut, state, past: { messages, turn } });
      }),
      { numRuns: 100 },
    );
  });
});

interface Join {
  readonly cut: number;
  readonly state: AgUiState;
  readonly past: Parameters<typeof toPrelude>[1];
}

async function expectSame(events: readonly StoredEventText[], { cut, state, past }: Join): Promise<void> {
  const { view, run } = state;
  const prelude = toPrelude(state, past, "thread-1").map(({ data }) => JSON.parse(data) as Told);
  const rest = tellRest(events, { ...view, run: run?.id ?? "", inputs: true }, cut);
  const joined = [...prelude, ...rest];
  await expectTellable(joined);
  const late = await hearBoth(joined);
  const early = await hearAll(events, view, rest.at(-1));
  expect(late.map(messagesOf)).toEqual(early.map(messagesOf));
  if (state.shared) expect(late[0].state).toEqual(early[0].state);
}

const heard = new WeakMap<readonly StoredEventText[], Map<string, ReturnType<typeof hearBoth>>>();

/** A reader of the thread from its start up to this event. */
function hearAll(
  events: readonly StoredEventText[],
  view: AgUiView,
  last: Told | undefined,
): ReturnType<typeof hearBoth> {
  const known = heard.get(events) ?? new Map<string, ReturnType<typeof hearBoth>>();
  heard.set(events, known);
  const key = JSON.stringify(last);
  const all = tellAll({ ...view, inputs: true }, events).told;
  const whole =
    known.get(key) ?? hearBoth(all.slice(0, all.findIndex((event) => JSON.stringify(event) === key) + 1));
  known.set(key, whole);
  return whole;
}

/** A failed call has `error` in a snapshot's messages; the event has no such field. */
function messagesOf({ messages }: Heard): unknown[] {
  return messages.map((message) => ({ ...message, error: undefined, metadata: undefined }));
}

function tellRest(events: readonly StoredEventText[], view: AgUiView, cut: number): Told[] {
  let state = agUi.initial(view);
  const told: Told[] = [];
  for (const event of events) {
    const projected = agUi.project(state, event);
    state = projected.state;
    if (event.sequence > cut) told.push(...projected.frames.map(({ data }) => JSON.parse(data) as Told));
    if (projected.last) break;
  }
  return told;
}
