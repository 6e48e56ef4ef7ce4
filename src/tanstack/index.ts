/** The package entry `sluice/tanstack`: coding agents in `chat()`. */
export { type SluiceModelOptions, sluiceText, SluiceTextAdapter, type SluiceTextOptions } from "./adapter.ts";
export { sluiceStream, type SluiceStreamOptions, type SluiceStreamRun } from "./durability.ts";
export type { SluiceServer } from "./server.ts";
