export {
  type ChatMessage,
  type ChatTurn,
  fromReplay,
  type Replay,
  REPLAY_TURN_LIMIT,
  toReplay,
  toTurns,
} from "./conversation.ts";
export { type NdjsonCursor, parseLastEventId } from "./cursor.ts";
export { type Asked, Dispatch, toAsked } from "./dispatch.ts";
export {
  type AssistantSandboxNDJSONLine,
  ErrorLine,
  LogLine,
  NdjsonError,
  NdjsonLine,
  parseLine,
  ResultLine,
  StepLine,
} from "./line.ts";
export { MAX_LINE_BYTES } from "./line-splitter.ts";
export { createNdjsonParser, type NdjsonParserOptions } from "./parser.ts";
export { ndjson } from "./project.ts";
export type { NdjsonState, NdjsonView } from "./state.ts";
export { createNdjsonTap, type NdjsonTap, RunError } from "./tap.ts";
export { DONE, ndjsonToSse, type NdjsonToSseOptions } from "./to-sse.ts";
