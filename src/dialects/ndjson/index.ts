export {
  type Asked,
  type ChatMessage,
  type ChatTurn,
  Dispatch,
  fromReplay,
  type NdjsonCursor,
  parseLastEventId,
  type Replay,
  REPLAY_TURN_LIMIT,
  toAsked,
  toReplay,
  toTurns,
} from "./parse.ts";
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
export { MAX_LINE_BYTES } from "./line.ts";
export { createNdjsonParser, type NdjsonParserOptions } from "./line-stream.ts";
export { ndjson } from "./project.ts";
export type { NdjsonState, NdjsonView } from "./projection.ts";
export { createNdjsonTap, type NdjsonTap, RunError } from "./tap.ts";
export { DONE, ndjsonToSse, type NdjsonToSseOptions } from "./to-sse.ts";
