import assert from "node:assert/strict";
import { SluiceError } from "../../contract/index.ts";
import type { ErrorCode, EventDraft } from "../../contract/index.ts";
import type { Batch, EventLog, SessionRow, StoredEvent } from "../port.ts";

export interface LogUnderTest {
  readonly log: EventLog;
  /** Closes the log and opens its data again. Absent for a volatile log. */
  reopen?(): Promise<EventLog>;
  /** Closes the newest log and removes its files. */
  dispose(): Promise<void>;
}

export interface Suite {
  readonly volatile: boolean;
  it(name: string, body: (subject: LogUnderTest) => Promise<void>): void;
}

export const TIME = Date.UTC(2025, 0, 2, 3, 4, 5, 678);

export function createSession(log: EventLog, id: string): Promise<SessionRow> {
  return log.create({ id, spec: { agent: "scripted", title: `about ${id}` }, owner: "first", time: TIME });
}

export function toDeltas(count: number, options: { from?: number; raw?: boolean } = {}): EventDraft[] {
  const from = options.from ?? 0;
  return Array.from({ length: count }, (_, index) => ({
    type: "item.delta",
    source: "agent",
    turn_id: "turn_1",
    data: { item_id: "itm_1", delta: `word ${from + index} — ü "quoted" \n` },
    ...(options.raw && { raw: JSON.stringify({ type: "delta", n: from + index }) }),
  }));
}

export function append(
  log: EventLog,
  session: string,
  events: EventDraft[],
  rest: Partial<Batch> = {},
): ReturnType<EventLog["append"]> {
  return log.append(session, { epoch: 1, time: TIME, events, ...rest });
}

/** All of a session, page by page. */
export async function readAll(
  log: EventLog,
  session: string,
  options: { after?: number; limit?: number; raw?: boolean } = {},
): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  let after = options.after ?? 0;
  for (;;) {
    const page = await log.read(session, { after, limit: options.limit ?? 1000, raw: options.raw ?? false });
    if (page.length === 0) return events;
    events.push(...page);
    after = page.at(-1)?.sequence ?? after;
  }
}

export function isGapless(events: readonly StoredEvent[], from: number): void {
  assert.deepEqual(
    events.map((event) => event.sequence),
    events.map((_, index) => from + index),
  );
  for (const event of events) assert.equal(JSON.parse(event.body).sequence, event.sequence);
}

export async function failsWith(code: ErrorCode, work: Promise<unknown>): Promise<SluiceError> {
  let failure: unknown;
  await work.catch((error: unknown) => (failure = error));
  assert.ok(failure instanceof SluiceError, `expected a SluiceError ${code}, got ${String(failure)}`);
  assert.equal(failure.code, code);
  return failure;
}
