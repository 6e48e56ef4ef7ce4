import { SluiceError } from "../contract/index.ts";
import type { EventLog, ReadRange, StoredEvent } from "./port.ts";

/** Reads on behind a cursor; where the events behind it were trimmed away, from the oldest event that there is. */
export async function readKept(log: EventLog, session: string, range: ReadRange): Promise<StoredEvent[]> {
  for (let { after } = range; ;) {
    try {
      return await log.read(session, { ...range, after });
    } catch (error) {
      const floor = floorOf(error);
      if (floor === undefined || floor <= after) throw error;
      after = floor;
    }
  }
}

function floorOf(error: unknown): number | undefined {
  if (!(error instanceof SluiceError) || error.code !== "cursor_gone") return undefined;
  const { oldest } = error.facts;
  return typeof oldest === "number" ? oldest - 1 : undefined;
}
