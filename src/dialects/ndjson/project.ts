import type { EventOf, Item, SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame, Projected } from "../port.ts";
import { hasResult, toError } from "./ending.ts";
import { toLog } from "./logs.ts";
import { NO_TURN, type NdjsonState, type NdjsonView, type OpenTurn } from "./state.ts";
import { endSteps, tellCall, tellResult, tellToolAnswer, tellToolRequest } from "./steps.ts";
import { Teller } from "./teller.ts";
import { DONE } from "./to-sse.ts";

/**
 * The log as lines of the envelope. A turn's lines are all between its `turn.started` and its `turn.ended`, so that
 * the lines of a session are those of its turns, one after the other.
 */
export const ndjson: Dialect<NdjsonState, NdjsonView> = {
  id: "ndjson",
  memory: "turn",
  initial: (view) => ({ view, ...NO_TURN }),
  project(state, stored) {
    // The many: a text shows when it is whole.
    if (stored.type === "item.delta" || stored.type === "input.accepted") return { state, frames: NO_FRAMES };
    const event = JSON.parse(stored.body) as SluiceEvent;
    if (event.type === "session.deleted") return { state, frames: NO_FRAMES, last: true };
    if (event.turn_id === undefined) return { state: hold(state, event), frames: NO_FRAMES };
    if (state.view.turn !== undefined && state.view.turn !== event.turn_id)
      return { state: state.held.length === 0 ? state : { ...state, held: [] }, frames: NO_FRAMES };
    return tell(state, event, event.turn_id);
  },
};

const NO_FRAMES: readonly Frame[] = [];

function hold(state: NdjsonState, event: SluiceEvent): NdjsonState {
  const said = state.view.form === "sse" ? undefined : toLog(event);
  if (!said) return state;
  const line = JSON.stringify({ type: "log", ...said, ts: Date.parse(event.time) });
  return { ...state, held: [...state.held, line] };
}

function tell(state: NdjsonState, event: SluiceEvent, turnId: string): Projected<NdjsonState> {
  const held = state.held.map((data): Frame => ({ event: "log", data }));
  const turn: OpenTurn = state.turn?.id === turnId ? state.turn : { id: turnId, steps: {}, text: null };
  const teller = new Teller(state, turn, event);
  tellEvent(teller, event);
  const frames = numbered(state.view, event.sequence, [...held, ...teller.frames]);
  const isOver = event.type === "turn.ended";
  return {
    state: { view: state.view, held: [], turn: isOver ? null : teller.turn },
    frames,
    last: isOver && state.view.turn === turnId,
  };
}

function tellEvent(teller: Teller, event: SluiceEvent): void {
  switch (event.type) {
    case "item.completed":
      return tellItem(teller, event.data.item, event.parent_id);
    case "tool.requested":
      return tellToolRequest(teller, event);
    case "tool.resolved":
      return tellToolAnswer(teller, event);
    case "turn.ended":
      return tellEnd(teller, event);
    default: {
      const said = toLog(event);
      if (said) teller.log(said.level, said.message);
    }
  }
}

function tellItem(teller: Teller, item: Item, parent: string | undefined): void {
  if (item.kind === "tool_call") return tellCall(teller, item);
  if (item.kind === "tool_result") return tellResult(teller, item);
  if (item.kind !== "message" || item.role !== "assistant") return;
  const thought = item.content.find((part) => part.type === "reasoning");
  if (thought) return thought.visibility === "public" ? teller.log("debug", thought.text) : undefined;
  const text = item.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  if (text === "") return;
  // A sub-agent's words, and a message that broke off, are never the turn's own last ones.
  if (parent !== undefined || item.status === "failed") return teller.log("debug", text);
  if (teller.turn.text !== null) teller.log("debug", teller.turn.text);
  teller.setText(text);
}

function tellEnd(teller: Teller, { data }: EventOf<"turn.ended">): void {
  endSteps(teller);
  const { ts } = teller;
  const { text } = teller.turn;
  if (hasResult(data, text ?? undefined)) {
    teller.say({ type: "result", message: text ?? "", ts });
  } else {
    if (text !== null) teller.log("debug", text);
    teller.say({ type: "error", ...toError(data), ts });
  }
  if (teller.isSse) teller.frames.push({ event: "done", data: DONE });
}

/**
 * Each frame of one event is a place to resume behind: `N.1`, `N.2`, and `N` for the last, behind which the reader has
 * seen all of it.
 */
function numbered({ form, seen }: NdjsonView, sequence: number, frames: readonly Frame[]): readonly Frame[] {
  if (form !== "sse") return frames;
  const named = frames.map((frame, index) =>
    index === frames.length - 1 ? frame : { ...frame, id: `${sequence}.${index + 1}` },
  );
  return seen?.sequence === sequence ? named.slice(seen.frames) : named;
}
