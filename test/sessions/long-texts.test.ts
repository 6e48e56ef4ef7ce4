import { afterEach, expect, it } from "vitest";
import type { EventDraft, Item } from "../../src/contract/index.ts";
import { createMemoryLog } from "../../src/log/index.ts";
import { Scribe } from "../../src/harness/scribe.ts";
import { emptyTranscript } from "../../src/harness/transcript.ts";
import { Drafts } from "../../src/sessions/fold/drafts.ts";
import { loadFold } from "../../src/sessions/fold/load.ts";
import { applyEvent, emptyFold, type SessionFold } from "../../src/sessions/fold/session-fold.ts";
import { closeTurn } from "../../src/sessions/turn/turn-end.ts";
import { COLLECTED_LENGTH, headOf, isLongJson } from "../../src/text/long-text.ts";
import { SCRIPTED } from "../support/engine.ts";

const CUT = /\n\[the text was cut after \d+ characters; the deltas of the item have the rest\]$/;
const PIECE = "\0".repeat(1024 * 1024);

const logs: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const log of logs.splice(0)) await log.close();
});

it("the open items of a turn collect a bounded text together, and can be closed", () => {
  const { fold, drafts } = openTurn(["a", "b"]);
  for (let piece = 0; piece < 40; piece += 1)
    for (const id of ["a", "b"]) drafts.addDelta({ item_id: id, delta: PIECE }, FROM);
  expect(fold.collected).toBe(COLLECTED_LENGTH);
  const closed = closeTurn(fold, { status: "interrupted", stopReason: "terminated" });
  const texts = closed.flatMap(textsOf);
  expect(texts).toHaveLength(2);
  for (const text of texts) expect(CUT.test(text)).toBe(true);
  expect(texts.join("").length).toBeLessThan(COLLECTED_LENGTH + 1_000);
  expect(isLongJson(closed, 7 * COLLECTED_LENGTH)).toBe(false);
});

it("a completed item gives its room back", () => {
  const { fold, drafts } = openTurn(["a", "b"]);
  for (let piece = 0; piece < 40; piece += 1) drafts.addDelta({ item_id: "a", delta: PIECE }, FROM);
  drafts.add({
    type: "item.completed",
    source: "agent",
    data: { item: { ...itemOf("a"), status: "completed" } },
  });
  drafts.addDelta({ item_id: "b", delta: "whole" }, FROM);
  expect(fold.turn?.open["b"]).toEqual({ item: itemOf("b"), text: "whole" });
});

it("a snapshot with a longer text, of a version without the limit, is cut when it is opened", async () => {
  const log = createMemoryLog();
  logs.push(log);
  const made = await log.create({ id: "s", time: 1, spec: SCRIPTED, owner: "us" });
  const old: SessionFold = {
    ...emptyFold(),
    started: true,
    open: { a: { item: itemOf("a"), text: "x".repeat(COLLECTED_LENGTH + 1) } },
  };
  const fold = await loadFold(log, { ...made, snapshot: { at: 0, state: old } });
  expect(fold.open["a"]?.cut).toBe(true);
  expect(CUT.test(fold.open["a"]?.text ?? "")).toBe(true);
});

it("the scribe keeps a bounded text, and tells every delta", () => {
  const scribe = new Scribe(emptyTranscript("itm_"));
  scribe.startText("t");
  for (let piece = 0; piece < 20; piece += 1) scribe.delta("t", PIECE);
  scribe.endText("t");
  expect(scribe.facts.filter(({ type }) => type === "item.delta")).toHaveLength(20);
  const [text = ""] = scribe.facts.flatMap((fact) =>
    fact.type === "item.completed" ? textsOf(fact as never) : [],
  );
  expect(text.length).toBeLessThan(COLLECTED_LENGTH + 1_000);
  expect(CUT.test(text)).toBe(true);
});

it("a cut leaves no half of a character, and the length of JSON is exact", () => {
  expect(headOf("a😀b", 2)).toBe("a");
  for (const value of ['a\n\0"\\😀\ud800', { "k\u0001": ["x", "é"] }]) {
    const { length } = JSON.stringify(value);
    expect([isLongJson(value, length - 1), isLongJson(value, length + 3)]).toEqual([true, false]);
  }
});

const FROM = { source: "agent", parentId: undefined, raw: undefined } as const;

function openTurn(ids: readonly string[]): { fold: SessionFold; drafts: Drafts } {
  const fold = emptyFold();
  const started: EventDraft = {
    type: "turn.started",
    source: "daemon",
    data: { turn_id: "t", input_ids: [] },
  };
  applyEvent(fold, started, 1, 1);
  const drafts = new Drafts(fold, 1);
  for (const id of ids) drafts.add({ type: "item.started", source: "agent", data: { item: itemOf(id) } });
  return { fold, drafts };
}

function itemOf(id: string): Item {
  return { item_id: id, kind: "message", role: "assistant", status: "in_progress", content: [] };
}

function textsOf(event: EventDraft): string[] {
  if (event.type !== "item.completed") return [];
  return event.data.item.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
}
