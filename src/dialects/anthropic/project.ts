import type { BetaManagedAgentsSessionAgent } from "@anthropic-ai/sdk/resources/beta/sessions";
import { type EventOf, type EventType, own, type SluiceEvent, without } from "../../contract/index.ts";
import type { Dialect } from "../port.ts";
import { endsSession, findProjector, NO_FRAMES, type Projectors } from "../shared/projection.ts";
import { itemProjectors } from "./items.ts";
import { AnthropicProjection } from "./projection.ts";
import { requestProjectors } from "./requests.ts";
import { type AnthropicState, type AnthropicView, initialState } from "./state.ts";
import { endSpan, settleAsked } from "./tool-calls.ts";
import { emitFailures, turnProjectors } from "./turns.ts";

/** The log as Managed Agents clients read it. */
export const anthropic: Dialect<AnthropicState, AnthropicView> = {
  id: "anthropic",
  memory: "turn",
  initial: initialState,
  project(state, event) {
    const projector = findProjector(PROJECTORS, event.type);
    // Deltas come by the thousand; they are parsed only for a reader that wants previews.
    if (projector === undefined || (event.type === "item.delta" && !state.view.deltas))
      return { state, frames: NO_FRAMES };
    const projection = new AnthropicProjection(state, JSON.parse(event.body) as SluiceEvent);
    // Readers with and without previews must get the same events, so a delta must not settle a request.
    if (event.type !== "item.delta") settleAsked(projection);
    projector(projection, projection.event);
    const { seen } = state.view;
    const frames =
      seen?.sequence === event.sequence ? projection.frames.slice(seen.frames) : projection.frames;
    return { state: projection.state, frames, last: endsSession(event.type) };
  },
};

const PROJECTORS: Projectors<AnthropicProjection> = {
  ...turnProjectors,
  ...itemProjectors,
  ...requestProjectors,
  "turn.resumed": (projection) => void projection.emit("session.status_running", {}),
  "session.deleted": (projection) => void projection.emit("session.deleted", {}),
  "session.updated": projectUpdated,
  "model.started": projectModelStarted,
  "model.ended": projectModelEnded,
  "context.compacted": (projection) => void projection.emit("agent.thread_context_compacted", {}),
};

/** The event types that a list shows. */
export const LISTED_TYPES: ReadonlySet<EventType> = new Set(
  (Object.keys(PROJECTORS) as EventType[]).filter((type) => type !== "item.delta"),
);

/** Shows the changes of official fields. Empty metadata is left out, as in the official type. */
function projectUpdated(projection: AnthropicProjection, { data }: EventOf<"session.updated">): void {
  const { title, metadata, agent } = data;
  if (title === undefined && metadata === undefined && agent === undefined) return;
  const isCleared = Object.keys((metadata ?? {}) as object).length === 0;
  projection.emit("session.updated", {
    ...(title === undefined ? {} : { title }),
    ...(isCleared ? {} : { metadata: metadata as Record<string, string> }),
    ...(agent === undefined ? {} : { agent: agent as BetaManagedAgentsSessionAgent }),
  });
}

function projectModelStarted(projection: AnthropicProjection, { data }: EventOf<"model.started">): void {
  emitFailures(projection);
  const eventId = projection.emit("span.model_request_start", {});
  projection.change({ models: { ...projection.state.models, [data.request_id]: eventId } });
}

function projectModelEnded(projection: AnthropicProjection, { data }: EventOf<"model.ended">): void {
  const started = own(projection.state.models, data.request_id);
  if (started === undefined) return;
  projection.change({ models: without(projection.state.models, data.request_id) });
  const { usage = {} } = data;
  endSpan(projection, {
    model_request_start_id: started,
    is_error: data.error !== undefined,
    model_usage: {
      input_tokens: usage.input_tokens ?? 0,
      output_tokens: usage.output_tokens ?? 0,
      cache_read_input_tokens: usage.cache_read_tokens ?? 0,
      cache_creation_input_tokens: usage.cache_write_tokens ?? 0,
    },
  });
}
