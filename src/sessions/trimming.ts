import type { EventLog, SessionRow } from "../log/port.ts";
import { trimmableThrough } from "./load.ts";

/**
 * Forgets the oldest events of a session, and never one that its fold is still told from. Answers whether any was
 * forgotten.
 */
export async function trimSession(log: EventLog, row: SessionRow, through: number): Promise<boolean> {
  const end = Math.min(through, trimmableThrough(row));
  if (end <= row.floor) return false;
  await log.trim(row.id, end);
  return true;
}
