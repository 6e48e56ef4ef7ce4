export { DEFAULT_ORPHAN_MS } from "./upkeep/caretaker.ts";
export { createEngine } from "./engine.ts";
export { DEFAULT_LIMITS, type Limits, type Logger, type LogLine, type McpVerdict } from "./deps.ts";
export type { Loan, NamedSecret } from "./secrets/lending.ts";
export { createRecorder, type Recorder, type RecorderOptions } from "./secrets/recorder.ts";
export type { EngineOptions } from "./options.ts";
export { createSandboxDebug } from "./sandbox-debug.ts";
export { createScrub, readIdentity, type Scrub } from "./secrets/scrub.ts";
export type { AcceptedInput, AgentInfo, Engine, EngineStats, SessionInput, StartedCommand } from "./port.ts";
