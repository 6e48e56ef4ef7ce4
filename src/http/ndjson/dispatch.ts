import type { Context } from "hono";
import { type ContentPart, createId, SluiceError } from "../../contract/index.ts";
import { type Asked, type Dispatch, toAsked, toReplay, toTurns } from "../../dialects/ndjson/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { AcceptedInput } from "../../sessions/port.ts";
import type { AppEnv } from "../context.ts";
import { sha256 } from "../digest.ts";
import { idempotencyKeyOf } from "../operation.ts";
import type { Conversation } from "./conversations.ts";
import { type NdjsonServices, toKeyedId } from "./dialect.ts";
import { KIND, toDocumentId, type TurnBody } from "./documents.ts";
import { findPasswordRemovals, issuePassword } from "./passwords.ts";

export interface Dispatched {
  readonly conversation: string;
  readonly turn: string;
  readonly after: number;
  readonly row: SessionRow;
  readonly cancelOnDisconnect: boolean;
  /** The one-time password for the run's assets. A resend gets none. */
  readonly upload?: { readonly password: string; readonly expiresAt: number } | undefined;
}

/** Starts a turn in its conversation, or in a new one. */
export async function dispatch(
  services: NdjsonServices,
  c: Context<AppEnv>,
  given: Dispatch,
): Promise<Dispatched> {
  const tenant = c.get("tenant");
  const key = idempotencyKeyOf(c);
  const asked = toAsked(given);
  const row = await ensureSession(services, asked, { key, tenant });
  const digest = sha256(JSON.stringify(given));
  const attempt = async (found: Conversation): Promise<Dispatched | "later"> => {
    const resent = key === undefined ? undefined : await recall(services, tenant, { row, key, digest });
    const { cancelOnDisconnect } = asked;
    const known = { conversation: row.id, row, cancelOnDisconnect };
    if (resent) return { ...known, ...resent };
    const sent = await send(services, tenant, { asked, found, row, key });
    if (sent === "later") return sent;
    // The turn runs from here on, so no later failure may reach the caller.
    const upload = await record(services, tenant, { ...known, digest, sent }).catch((error: unknown) => {
      const message = "A run goes on without a record: it takes no assets and does not end with its readers";
      services.logger({ level: "warn", message, session: row.id, turn: sent.turnId, error: String(error) });
      return undefined;
    });
    await sweep(services, tenant, row.id);
    return { ...known, turn: sent.turnId, after: sent.after, upload };
  };
  for (;;) {
    const dispatched = await services.conversations.with(tenant, row, attempt);
    if (dispatched !== "later") return dispatched;
    // The conversation is unlocked during this wait. If the client leaves now, its message is not sent.
    await untilIdle(services.engine, row.id, c.req.raw.signal);
  }
}

/** The session of a conversation; creates it if there is none. */
async function ensureSession(
  { engine, defaultAgent }: NdjsonServices,
  asked: Asked,
  { key, tenant }: { key: string | undefined; tenant: string },
): Promise<SessionRow> {
  const id = asked.conversation ?? (key === undefined ? createId("session") : toKeyedId(tenant, key));
  const known = await engine.log.find(id);
  if (!known) {
    try {
      await engine.create(id, { ...asked.spec, agent: asked.agent ?? defaultAgent });
    } catch (error) {
      // Another first message created it meanwhile.
      if (!(error instanceof SluiceError && error.code === "session_already_exists")) throw error;
    }
  }
  const row = known ?? (await engine.log.find(id));
  if (!row) throw new SluiceError("session_not_found", `There is no conversation ${id}.`, { sessionId: id });
  if (asked.agent !== undefined && asked.agent !== row.spec.agent) {
    const detail = `agent: the conversation ${id} belongs to the agent ${row.spec.agent}. Leave agent out, or start another conversation.`;
    throw new SluiceError("invalid_request", detail, { agent: row.spec.agent });
  }
  return row;
}

async function send(
  { engine, conversations, settings }: NdjsonServices,
  tenant: string,
  to: { asked: Asked; found: Conversation; row: SessionRow; key: string | undefined },
): Promise<AcceptedInput | "later"> {
  const { asked, found, row, key } = to;
  const { turns, remembered } = found.body;
  const limit = asked.replayTurnLimit ?? settings.replayTurnLimit;
  let replay: ContentPart[] = [];
  if (turns === 0 && row.head === 0) replay = toReplay(toTurns(asked.history), limit);
  else {
    const ahead = await countAhead(engine, row.id);
    if (remembered + ahead > limit) {
      // An agent cannot forget during a turn, so the message waits.
      if (ahead > 0) return "later";
      await engine.update(row.id, { forget: true });
      replay = toReplay(await conversations.readTurns(tenant, found, limit), limit);
    }
  }
  const content: ContentPart[] = [{ type: "text", text: asked.prompt }, ...replay];
  return engine.send(row.id, { content, via: "ndjson", ...(key !== undefined && { key }) });
}

/** How many turns run or wait before a message that is sent now. */
async function countAhead(engine: NdjsonServices["engine"], id: string): Promise<number> {
  const { turnId, queued } = await engine.info(id);
  return (turnId === null ? 0 : 1) + queued;
}

async function untilIdle(engine: NdjsonServices["engine"], id: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const { turnId, queued, eventCount } = await engine.info(id);
    if (turnId === null && queued === 0) return;
    await engine.log.moved(id, eventCount, { signal });
  }
}

async function record(
  { catalog, settings }: NdjsonServices,
  tenant: string,
  run: { conversation: string; cancelOnDisconnect: boolean; digest: string; sent: AcceptedInput },
): Promise<NonNullable<Dispatched["upload"]>> {
  const { conversation, cancelOnDisconnect, digest, sent } = run;
  const { turnId: turn, after } = sent;
  const expiresAt = Date.now() + settings.uploadTtlMs;
  const { password, change } = issuePassword({ conversation, turn, expiresAt });
  const body: TurnBody = { after, digest, cancelOnDisconnect };
  const parent = toDocumentId(conversation);
  await catalog.write(tenant, [{ op: "create", kind: KIND.turn, id: turn, parent, body }, change]);
  return { password, expiresAt };
}

/** Removes old passwords. Where another server was faster, the next dispatch tries again. */
async function sweep(
  { catalog, settings, logger }: NdjsonServices,
  tenant: string,
  session: string,
): Promise<void> {
  try {
    const removals = await findPasswordRemovals(catalog, tenant, settings.uploadTtlMs);
    if (removals.length > 0) await catalog.write(tenant, removals);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "not_found") return;
    logger({ level: "warn", message: "Old passwords could not be removed", session, error: String(error) });
  }
}

/** The turn of an earlier request with this key. */
async function recall(
  { engine, conversations }: NdjsonServices,
  tenant: string,
  { row, key, digest }: { row: SessionRow; key: string; digest: string },
): Promise<{ turn: string; after: number } | undefined> {
  const known = await engine.log.recall(row.id, key);
  if (!known) return undefined;
  const { after, accepted } = JSON.parse(known.answer) as {
    after: number;
    accepted: ({ turnId?: string } | undefined)[];
  };
  const turn = accepted[0]?.turnId ?? "";
  const found = await conversations.findTurn(tenant, turn);
  if (found && found.body.digest !== digest)
    throw new SluiceError("idempotency_conflict", "The key was used for another request. Use a new one.");
  return { turn, after };
}
