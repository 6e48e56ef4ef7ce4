/** The package entry `sluice/dialects/anthropic`. */
export { anthropic } from "./dialect.ts";
export { DELTA_TYPES, type DeltaType, EVENT_TYPES } from "./event-types.ts";
export { fromEventId, fromSessionId, toEventId, toSessionId, toThreadId } from "./ids.ts";
export { SendEvents, type Sendable } from "./sendable.ts";
export { type AnthropicState, type AnthropicView } from "./state.ts";
