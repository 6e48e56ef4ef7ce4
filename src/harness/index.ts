export { coverageOf, FEATURES, type Coverage, type Feature } from "./coverage.ts";
export type {
  DecodeContext,
  Decoded,
  Detected,
  Harness,
  HarnessCommand,
  HarnessFact,
  LaunchContext,
  ModelFailed,
} from "./port.ts";
export { decodeRecording, formatEntry, parseRecording, type RecordingEntry } from "./recording.ts";
export { findHarness, harnesses } from "./registry.ts";
export { scripted } from "./scripted/harness.ts";
