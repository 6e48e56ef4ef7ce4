import type { EventOf, EventType, SluiceEvent } from "../../contract/index.ts";
import type { Dialect, Frame } from "../port.ts";
import {
  tellInterrupt,
  tellPermissionRequested,
  tellPermissionResolved,
  tellQuestionRequested,
  tellQuestionResolved,
  tellToolRequested,
  tellToolResolved,
} from "./ask-frames.ts";
import { settleAsked } from "./calls.ts";
import { tellDelta, tellItemCompleted, tellItemStarted } from "./item-frames.ts";
import { tellModelEnded, tellModelStarted } from "./span-frames.ts";
import { type AnthropicState, type AnthropicView, initialState } from "./state.ts";
import { Teller } from "./teller.ts";
import {
  tellAccepted,
  tellError,
  tellRetrying,
  tellSessionEnded,
  tellTurnEnded,
  tellTurnStarted,
  tellWaiting,
} from "./turn-frames.ts";

/** The log as Managed Agents clients read it. */
export const anthropic: Dialect<AnthropicState, AnthropicView> = {
  id: "anthropic",
  memory: "turn",
  initial: initialState,
  project(state, event) {
    const tell = TELL[event.type] as ((teller: Teller, event: SluiceEvent) => void) | undefined;
    // There may be a hundred thousand deltas in a second; nobody looks into those that nobody asked for.
    if (tell === undefined || (event.type === "item.delta" && !state.view.deltas))
      return { state, frames: NO_FRAMES };
    const teller = new Teller(state, JSON.parse(event.body) as SluiceEvent);
    // Not by a delta: whether previews are wanted must not show in the events themselves.
    if (event.type !== "item.delta") settleAsked(teller);
    tell(teller, teller.event);
    const { seen } = state.view;
    const frames = seen?.sequence === event.sequence ? teller.frames.slice(seen.frames) : teller.frames;
    return { state: teller.state, frames, last: ENDS.has(event.type) };
  },
};

/** The types that a list has to be read for. */
export const toldTypes = (): ReadonlySet<EventType> => LISTED;

type Tell = { [T in EventType]?: (teller: Teller, event: EventOf<T>) => void };

const TELL: Tell = {
  "input.accepted": tellAccepted,
  "turn.started": tellTurnStarted,
  "turn.waiting": tellWaiting,
  "turn.retrying": tellRetrying,
  "turn.resumed": (teller) => void teller.say("session.status_running"),
  "turn.ended": tellTurnEnded,
  "session.ended": tellSessionEnded,
  "session.deleted": (teller) => void teller.say("session.deleted"),
  "session.updated": tellUpdated,
  "item.started": tellItemStarted,
  "item.delta": tellDelta,
  "item.completed": tellItemCompleted,
  "permission.requested": tellPermissionRequested,
  "permission.resolved": tellPermissionResolved,
  "question.requested": tellQuestionRequested,
  "question.resolved": tellQuestionResolved,
  "tool.requested": tellToolRequested,
  "tool.resolved": tellToolResolved,
  "interrupt.requested": tellInterrupt,
  "model.started": tellModelStarted,
  "model.ended": tellModelEnded,
  "context.compacted": (teller) => void teller.say("agent.thread_context_compacted"),
  error: tellError,
};

const LISTED: ReadonlySet<EventType> = new Set(
  (Object.keys(TELL) as EventType[]).filter((type) => type !== "item.delta"),
);
const NO_FRAMES: readonly Frame[] = [];
const ENDS: ReadonlySet<EventType> = new Set(["session.ended", "session.deleted"]);

/** Only what is official of it; the official type leaves out metadata that is empty. */
function tellUpdated(teller: Teller, { data }: EventOf<"session.updated">): void {
  const { title, metadata, agent } = data;
  if (title === undefined && metadata === undefined && agent === undefined) return;
  const isCleared = Object.keys((metadata ?? {}) as object).length === 0;
  teller.say("session.updated", {
    ...(title === undefined ? {} : { title }),
    ...(isCleared ? {} : { metadata }),
    ...(agent === undefined ? {} : { agent }),
  });
}
