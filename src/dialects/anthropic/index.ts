/** The package entry `sluice/dialects/anthropic`. */
export { anthropic } from "./project.ts";
export { DELTA_TYPES, type DeltaType, EVENT_TYPES } from "./state.ts";
export { fromEventId, fromSessionId, toEventId, toSessionId, toThreadId } from "./ids.ts";
export { type Sendable, SendEvents } from "./parse.ts";
export type { AnthropicState, AnthropicView } from "./state.ts";
