import { SluiceError, type SluiceEvent } from "../../contract/index.ts";
import { ndjson, type NdjsonCursor, parseLastEventId } from "../../dialects/ndjson/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { assertCursor, readSession } from "../cursor.ts";
import type { Mount } from "../mount.ts";
import type { Leave } from "./audience.ts";
import { type Dispatched, dispatch } from "./dispatch.ts";
import { LINES } from "./lines.ts";
import { ndjsonOperations } from "./operations.ts";
import { CHAT_STREAM } from "./path.ts";
import type { NdjsonServices } from "./services.ts";

export function mountRuns(mount: Mount, services: NdjsonServices): void {
  const { engine, streams, audience, conversations, settings, tickets } = services;

  mount(ndjsonOperations.stream, async ({ c, body }) => {
    const run = await dispatch(services, c, body);
    const { conversation, turn, after, row, cancelOnDisconnect } = run;
    // Nobody can come back to a stream of lines: a client that leaves it leaves the run.
    const enter = (): Leave => audience.enter(conversation, turn, { graceMs: 0 });
    return streams.respond(c, {
      session: conversation,
      ordinal: row.ordinal,
      dialect: ndjson,
      view: { turn },
      after: Math.max(after, row.floor),
      format: LINES,
      headers: toHeaders(run),
      ...(cancelOnDisconnect && { onOpen: enter }),
    });
  });

  mount(ndjsonOperations.chat, async ({ c, body }) => {
    const run = await dispatch(services, c, body);
    const { conversation, turn, cancelOnDisconnect, upload } = run;
    const ticket = tickets.issue({ conversation, turn });
    const query = new URLSearchParams({
      conversation,
      turn,
      ...(cancelOnDisconnect && { cancelOnDisconnect: "true" }),
      ...(ticket !== undefined && { ticket }),
    });
    const answer = { conversation, turn, stream: `${CHAT_STREAM}?${query}`, ...(upload && { upload }) };
    return c.json(answer, 200, toHeaders(run));
  });

  mount(ndjsonOperations.chatStream, async ({ c, query }) => {
    const { conversation, turn } = query;
    const { row, until } = await readSession(engine, conversation);
    const dispatched = (await conversations.findTurn(c.get("owner"), turn))?.body;
    const start = dispatched?.after ?? (await findStart(engine.log, row, turn));
    const lastEventId = c.req.header("last-event-id");
    const seen: NdjsonCursor = lastEventId ? parseLastEventId(lastEventId) : { after: start };
    if (seen.after > start) assertCursor(row, seen.after);
    if (await hasSeenEnd(engine.log, row, { turn, after: seen.after })) return c.body(null, 204);
    const enter = (): Leave => audience.enter(conversation, turn, { graceMs: settings.reconnectMs });
    // A mere observer ends nothing: the run has to be of that kind, and the reader its client.
    const cancels = dispatched?.cancelOnDisconnect === true && query.cancelOnDisconnect === true;
    return streams.respond(c, {
      session: conversation,
      ordinal: row.ordinal,
      dialect: ndjson,
      view: { turn, form: "sse" as const, ...(seen.seen && { seen: seen.seen }) },
      after: Math.max(seen.after, start, row.floor),
      ...(until !== undefined && { until }),
      ...(cancels && { onOpen: enter }),
    });
  });
}

function toHeaders({ conversation, turn, upload }: Dispatched): Record<string, string> {
  return {
    "sluice-conversation": conversation,
    "sluice-turn-id": turn,
    ...(upload && { "sluice-upload-otp": upload.password }),
  };
}

/** A turn that came through another dialect is looked for in the log. */
async function findStart(log: EventLog, row: SessionRow, turn: string): Promise<number> {
  const types = new Set(["input.accepted", "turn.started"] as const);
  for (let after = row.floor; ;) {
    const events = await log.read(row.id, { after, limit: 512, types });
    for (const { sequence, body } of events) {
      after = sequence;
      if ((JSON.parse(body) as SluiceEvent).turn_id === turn) return sequence - 1;
    }
    if (events.length === 0) break;
  }
  throw new SluiceError("not_found", `There is no turn ${turn} in the conversation ${row.id}.`);
}

/** Whether the event at the cursor is the turn's last: then there is nothing to come back for. */
async function hasSeenEnd(
  log: EventLog,
  row: SessionRow,
  { turn, after }: { turn: string; after: number },
): Promise<boolean> {
  if (after <= row.floor) return false;
  const [event] = await log.read(row.id, { after: after - 1, limit: 1 });
  if (event?.type !== "turn.ended") return false;
  return (JSON.parse(event.body) as SluiceEvent).turn_id === turn;
}
