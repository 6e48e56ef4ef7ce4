/** The package entry `sluice/tanstack`: coding agents in `chat()`. */
export { sluiceText, SluiceTextAdapter, type SluiceTextOptions } from "./adapter.ts";
export type { SluiceModelOptions } from "./request.ts";
export { sluiceStream, type SluiceStreamOptions, type SluiceStreamRun } from "./durability.ts";
export type { SluiceServer } from "./run.ts";
