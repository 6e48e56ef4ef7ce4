export { createMemoryLog } from "./memory.ts";
export type {
  Appended,
  Batch,
  Claim,
  EventLog,
  NewSession,
  ReadRange,
  Remembered,
  SessionRow,
  StoredEvent,
} from "./port.ts";
export { createSqliteLog } from "./sqlite/open.ts";
export type { SqliteLogOptions } from "./sqlite/open.ts";
