import { agUi, type AgUiView } from "../../dialects/ag-ui/index.ts";
import type { EventLog, SessionRow, StoredEvent } from "../../log/port.ts";

export interface ToldEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** All that the session has to tell up to its head, without any run's filter. */
export async function readTold(log: EventLog, row: SessionRow, view: AgUiView): Promise<ToldEvent[]> {
  const { run: _, ...all } = view;
  let state = agUi.initial(all);
  const told: ToldEvent[] = [];
  for (let after = row.floor; after < row.head;) {
    const events = await log.read(row.id, { after, limit: Math.min(512, row.head - after) });
    if (events.length === 0) break;
    for (const event of events) {
      const projected = agUi.project(state, event);
      state = projected.state;
      for (const { data } of projected.frames) told.push(JSON.parse(data) as ToldEvent);
    }
    after = (events.at(-1) as StoredEvent).sequence;
  }
  return told;
}
