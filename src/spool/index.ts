export { isAlive } from "./process.ts";
export { createSpool, MAX_SPOOL_BYTES, openSpool, type SpoolOptions } from "./spool.ts";
export type { SentEntry, Spool, SpoolBatch } from "./port.ts";
