import { type SluiceEvent, toIdTime } from "../../contract/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";

const PAGE = 100;
const SEARCHED = 10_000;
/** A batch has one time, taken moments before or after the ids in it. */
const MARGIN_MS = 60_000;
const STARTS = new Set(["input.accepted", "turn.started"] as const);

/** The session that a turn belongs to, by the time in its id: only sessions of that time are looked into. */
export async function findTurnSession(
  log: EventLog,
  turnId: string | undefined,
): Promise<string | undefined> {
  const time = turnId === undefined ? undefined : toIdTime(turnId);
  if (turnId === undefined || time === undefined) return undefined;
  for (let before: number | undefined, seen = 0; seen < SEARCHED; seen += PAGE) {
    const rows = await log.list({ limit: PAGE, ...(before === undefined ? {} : { before }) });
    for (const row of rows) {
      const isOfThen = row.createdAt <= time + MARGIN_MS && row.updatedAt >= time - MARGIN_MS;
      if (isOfThen && (await findTurnStart(log, row, turnId)) !== undefined) return row.id;
    }
    before = rows.at(-1)?.ordinal;
    if (rows.length < PAGE) return undefined;
  }
  return undefined;
}

/** The sequence before the turn's start, looked for from where the log reaches the time in its id. */
export async function findTurnStart(
  log: EventLog,
  row: SessionRow,
  turnId: string,
): Promise<number | undefined> {
  const time = toIdTime(turnId);
  if (time === undefined) return undefined;
  let isAccepted = false;
  for (let after = await findTime(log, row, time - MARGIN_MS); after < row.head;) {
    const events = await log.read(row.id, { after, limit: PAGE, types: STARTS });
    if (events.length === 0) return undefined;
    for (const { sequence, body } of events) {
      const event = JSON.parse(body) as SluiceEvent;
      if (event.type === "turn.started" && event.data.turn_id === turnId) return sequence - 1;
      if (event.type === "input.accepted" && event.data.turn_id === turnId) isAccepted = true;
      // What was not accepted at its time never was; what was may wait for its turn for long.
      if (!isAccepted && Date.parse(event.time) > time + MARGIN_MS) return undefined;
      after = sequence;
    }
  }
  return undefined;
}

/** The last sequence before a time: times never go back within a log. */
async function findTime(log: EventLog, row: SessionRow, time: number): Promise<number> {
  let [low, high] = [row.floor, row.head];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [event] = await log.read(row.id, { after: middle, limit: 1 });
    if (event && Date.parse((JSON.parse(event.body) as SluiceEvent).time) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
