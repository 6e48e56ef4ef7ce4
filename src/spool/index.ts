export { wholeCharacters } from "./reader.ts";
export { exitCodeOf, isAlive } from "./process.ts";
export { isShortened } from "./shortened.ts";
export { createSpool, MAX_SPOOL_BYTES, openSpool, type SpoolOptions } from "./spool.ts";
export type { OutputBatch, SentEntry, Spool, SpoolBatch, WrappedStart } from "./port.ts";
