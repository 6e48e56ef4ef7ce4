export { DEFAULT_ORPHAN_MS } from "./caretaker.ts";
export { createEngine } from "./engine.ts";
export type { EngineOptions } from "./engineOptions.ts";
export { DEFAULT_LIMITS, type Limits, type Logger, type LogLine, type McpVerdict } from "./deps.ts";
export type { Loan, NamedSecret } from "./lending.ts";
export { createRecorder, type Recorder, type RecorderOptions } from "./recorder.ts";
export { createSandboxDebug } from "./sandboxDebug.ts";
export type { Scrub } from "./scrub.ts";
export type { AcceptedInput, AgentInfo, Engine, EngineStats, SessionInput, StartedCommand } from "./port.ts";
