import { SluiceError } from "../../contract/index.ts";
import { anthropic } from "../../dialects/anthropic/dialect.ts";
import { fromEventId } from "../../dialects/anthropic/ids.ts";
import type { AnthropicView } from "../../dialects/anthropic/state.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { readStateAt } from "../rewind.ts";

/**
 * Where to read on behind an event that a reader saw: an id says where an event comes from, and it is told there or
 * somewhat later.
 */
export async function findResume(log: EventLog, row: SessionRow, id: string): Promise<Resume> {
  const place = fromEventId(row.id, id.replace(/-queued$/, ""));
  if (!place || place.sequence <= row.floor || place.sequence > row.head) throw unknown(id);
  let state = await readStateAt(log, { session: row.id, dialect: anthropic, view: {} }, place.sequence - 1);
  for (let after = place.sequence - 1; after < row.head;) {
    const events = await log.read(row.id, { after, limit: 512 });
    for (const event of events) {
      const told = anthropic.project(state, event);
      state = told.state;
      after = event.sequence;
      const index = told.frames.findIndex((frame) => frame.id === id);
      if (index === -1) continue;
      if (index === told.frames.length - 1) return { after };
      return { after: after - 1, seen: { sequence: after, frames: index + 1 } };
    }
    if (events.length === 0) break;
  }
  throw unknown(id);
}

export interface Resume {
  readonly after: number;
  readonly seen?: NonNullable<AnthropicView["seen"]>;
}

function unknown(id: string): SluiceError {
  return new SluiceError(
    "invalid_cursor",
    `Last-Event-ID: ${JSON.stringify(id.slice(0, 80))} is no event of this session.`,
  );
}
