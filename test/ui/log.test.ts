import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventDraft, SluiceEvent } from "../../src/contract/index.ts";
import { applyEvent, emptyFold, statusOf } from "../../src/sessions/fold/session-fold.ts";
import { LogEngine } from "../../src/ui/log/engine.ts";
import { LogIndex } from "../../src/ui/log/log-index.ts";
import type { FromLog, ScreenChange } from "../../src/ui/log/protocol.ts";
import { viewRow } from "../../src/ui/log/row-view.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { script } from "./script.ts";

let server: TestServer;
let events: SluiceEvent[];
beforeAll(async () => {
  server = await startServer({ args: ["--sandbox", "local"] });
  const { client } = server;
  await client.sessions.create("all", { agent: "scripted", autoCheckpoint: true });
  const turns = [
    [
      { plan: [{ content: "a", status: "pending", priority: "low" }] },
      { think: "hm" },
      { say: "some words here" },
    ],
    [{ ask: { shell: "echo hi" } }, { question: { prompt: "which?", options: ["a", "b"] } }, { say: "ok" }],
    [
      { subagent: { name: "r", steps: [{ say: "inner" }, { shell: "ls" }] } },
      { usage: { input_tokens: 3, output_tokens: 4 } },
    ],
    [{ fail: { kind: "overloaded", times: 1 } }, { say: "after the retry" }],
  ];
  for (const turn of turns)
    for await (const event of client.messageStream("all", script(turn), { extensions: true })) {
      if (event.type === "permission.requested") {
        await client.sendMessage("all", script([{ say: "queued" }]));
        await client.replyPermission("all", event.data.permission_id, { reply: "once" });
      }
      if (event.type === "question.requested")
        await client.replyQuestion("all", event.data.question_id, [["b"]]);
    }
  events = await client.getEvents("all", { extensions: true });
}, 120_000);
afterAll(() => server?.close());

describe("the page's log", () => {
  it("14: the state at every event is the engine's fold of the events up to it", () => {
    const index = new LogIndex({ base: 0 });
    for (const event of events) index.add(JSON.stringify(event));
    const fold = emptyFold();
    expect(events.length).toBeGreaterThan(100);
    for (const event of events) {
      applyEvent(fold, event as unknown as EventDraft, event.sequence, Date.parse(event.time));
      const moment = index.momentAt(event.sequence);
      const shown = {
        status: moment.status,
        turn: moment.turnId,
        queue: moment.queue.map(({ inputId }) => inputId),
        pending: moment.pending.map(({ id }) => id),
        usage: moment.usage,
        paused: moment.paused,
        checkpoint: moment.checkpoint?.id ?? null,
      };
      expect(shown, `event ${event.sequence}, ${event.type}`).toEqual({
        status: statusOf(fold),
        turn: fold.turn?.id ?? null,
        queue: fold.inbox.map(({ inputId }) => inputId),
        pending: (fold.turn?.pending ?? []).map(({ id }) => id),
        usage: fold.usage,
        paused: fold.paused,
        checkpoint: fold.checkpoint,
      });
    }
  });

  it("14: a row at a moment is the row of a log that ends there", () => {
    const whole = new LogIndex({ base: 0 });
    for (const event of events) whole.add(JSON.stringify(event));
    const growing = new LogIndex({ base: 0 });
    for (const event of events) {
      growing.add(JSON.stringify(event));
      const row = growing.rows.all[growing.columns.rowOf(event.sequence)];
      const same = whole.rows.all[whole.columns.rowOf(event.sequence)];
      if (!row || !same || row.kind === "turn") continue;
      const { version: _, ...then } = viewRow(growing, row, event.sequence);
      const { version: __, ...now } = viewRow(whole, same, event.sequence);
      expect({ ...now, open: then.open }, `event ${event.sequence}, ${event.type}`).toEqual(then);
    }
  });

  it("refuses a gap, and takes an event once", () => {
    const index = new LogIndex({ base: 0 });
    const [first, second, third] = events.map((event) => JSON.stringify(event));
    expect(index.add(first ?? "")).toBe(true);
    expect(index.add(first ?? "")).toBe(false);
    expect(() => index.add(third ?? "")).toThrow("After event 1 came event 3");
    expect(index.add(second ?? "")).toBe(true);
  });

  it.each(["universal", "anthropic", "ag-ui", "ndjson", "content", "lifecycle"] as const)(
    "18: the frames of %s are those of the server, from any event on",
    async (format) => {
      const { events: theirs } = await server.client.frames.page("all", format, { limit: 1000 });
      const wanted = new Map(
        theirs.map(({ sequence, frames }) => [sequence, frames.map((frame) => JSON.stringify(frame))]),
      );
      for (const from of [1, 7, 40, events.length - 5]) {
        const rows = await ask("frames", { from, count: events.length, dialects: [format], raw: false });
        for (const row of rows as { sequence: number; frames: Record<string, string[]> }[])
          expect(row.frames[format], `event ${row.sequence} from ${from}`).toEqual(
            wanted.get(row.sequence) ?? [],
          );
      }
    },
  );

  it("sends one screen for each that was drawn, however many events come", () => {
    const screens: ScreenChange[] = [];
    const engine = new LogEngine((message) => message.type === "screen" && screens.push(message));
    engine.receive({
      type: "view",
      view: { at: null, from: 0, count: 10, end: false, all: true, hidden: [] },
    });
    engine.receive({
      type: "open",
      session: "all",
      proof: null,
      events: events.map((event) => JSON.stringify(event)),
    });
    expect(screens).toHaveLength(0);
    engine.receive({ type: "ready" });
    expect(screens).toHaveLength(1);
    engine.receive({ type: "view", view: { at: 5, from: 0, count: 10, end: false, all: true, hidden: [] } });
    expect(screens).toHaveLength(1);
    engine.receive({ type: "ready" });
    expect(screens.at(-1)?.at).toBe(5);
  });

  it("3: sends a row, and the state, only where they have changed", () => {
    const screens: ScreenChange[] = [];
    const engine = new LogEngine((message) => message.type === "screen" && screens.push(message));
    const show = (count: number): void => {
      const view = { at: null, from: 0, count, end: true, all: true, hidden: [] };
      engine.receive({ type: "view", view });
      engine.receive({ type: "ready" });
    };
    const texts = events.map((event) => JSON.stringify(event));
    engine.receive({ type: "open", session: "all", proof: null, events: texts });
    show(10);
    const [first] = screens;
    expect(first?.rows).toHaveLength(10);
    expect(first?.from).toBe((first?.rowCount ?? 0) - 10);
    expect(first?.rows.every((row) => typeof row === "object")).toBe(true);
    expect(first?.moment?.status).toBe("idle");
    show(12);
    const [, second] = screens;
    const known = first?.rows.map((row) => (typeof row === "object" ? row.sequence : 0));
    expect(second?.rows.slice(2)).toEqual(known);
    expect(second?.rows.slice(0, 2).every((row) => typeof row === "object")).toBe(true);
    expect(second?.moment).toBeUndefined();
  });
});

/** A call of the page to the owner of a log that lies in it. */
function ask(name: "frames", given: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const receive = (message: FromLog): void => {
      if (message.type !== "answer") return;
      if (message.failure === undefined) resolve(message.result);
      else reject(new Error(message.failure));
    };
    const engine = new LogEngine(receive);
    engine.receive({
      type: "open",
      session: "all",
      proof: null,
      events: events.map((event) => JSON.stringify(event)),
    });
    engine.receive({ type: "call", id: 1, name, given });
  });
}
