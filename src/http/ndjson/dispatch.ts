import { createHash } from "node:crypto";
import type { Context } from "hono";
import { type ContentPart, createId, SluiceError } from "../../contract/index.ts";
import { type Asked, type Dispatch, toAsked, toReplay, toTurns } from "../../dialects/ndjson/index.ts";
import type { SessionRow } from "../../log/port.ts";
import type { AcceptedInput } from "../../sessions/port.ts";
import type { AppEnv } from "../env.ts";
import type { Conversation } from "./conversations.ts";
import { issuePassword, sweepPasswords } from "./passwords.ts";
import { KIND, toDocumentId, type TurnBody } from "./records.ts";
import type { NdjsonServices } from "./services.ts";

export interface Dispatched {
  readonly conversation: string;
  readonly turn: string;
  readonly after: number;
  readonly row: SessionRow;
  readonly cancelOnDisconnect: boolean;
  /** For the run's assets; a resend is not given another one. */
  readonly upload?: { readonly password: string; readonly expiresAt: number } | undefined;
}

/** Starts a turn: in its conversation, or in a new one. */
export async function dispatch(
  services: NdjsonServices,
  c: Context<AppEnv>,
  given: Dispatch,
): Promise<Dispatched> {
  const owner = c.get("owner");
  const key = readKey(c);
  const asked = toAsked(given);
  const row = await ensureSession(services, asked, key);
  const digest = createHash("sha256").update(JSON.stringify(given)).digest("hex");
  const attempt = async (found: Conversation): Promise<Dispatched | "later"> => {
    const resent = key === undefined ? undefined : await recall(services, owner, { row, key, digest });
    const { cancelOnDisconnect } = asked;
    const known = { conversation: row.id, row, cancelOnDisconnect };
    if (resent) return { ...known, ...resent };
    const sent = await send(services, owner, { asked, found, row, key });
    if (sent === "later") return sent;
    // From here on the turn runs, and nothing may make the caller believe otherwise.
    const upload = await record(services, owner, { ...known, digest, sent }).catch((error: unknown) => {
      const message = "A run goes on without a record: it takes no assets, and no reader's leaving ends it";
      services.logger({ level: "warn", message, session: row.id, turn: sent.turnId, error: String(error) });
      return undefined;
    });
    await sweep(services, owner, row.id);
    return { ...known, turn: sent.turnId, after: sent.after, upload };
  };
  for (;;) {
    const dispatched = await services.conversations.with(owner, row, attempt);
    if (dispatched !== "later") return dispatched;
    // Others may ask about the conversation meanwhile; who goes away has sent nothing.
    await untilIdle(services.engine, row.id, c.req.raw.signal);
  }
}

/** The session of a conversation: the one that it has, or a new one. */
async function ensureSession(
  { engine, defaultAgent }: NdjsonServices,
  asked: Asked,
  key: string | undefined,
): Promise<SessionRow> {
  const id = asked.conversation ?? (key === undefined ? createId("session") : toKeyedId(key));
  const known = await engine.log.find(id);
  if (!known) {
    try {
      await engine.create(id, { ...asked.spec, agent: asked.agent ?? defaultAgent });
    } catch (error) {
      // Somebody else's first message came in between.
      if (!(error instanceof SluiceError && error.code === "session_already_exists")) throw error;
    }
  }
  const row = known ?? (await engine.log.find(id));
  if (!row) throw new SluiceError("session_not_found", `There is no conversation ${id}.`, { sessionId: id });
  if (asked.agent !== undefined && asked.agent !== row.spec.agent) {
    const detail = `agent: the conversation ${id} is ${row.spec.agent}'s. Leave agent out, or begin another one.`;
    throw new SluiceError("invalid_request", detail, { agent: row.spec.agent });
  }
  return row;
}

async function send(
  { engine, conversations, settings }: NdjsonServices,
  owner: string,
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
      // An agent in the middle of a turn cannot be made to forget.
      if (ahead > 0) return "later";
      await engine.update(row.id, { forget: true });
      replay = toReplay(await conversations.readTurns(owner, found, limit), limit);
    }
  }
  const content: ContentPart[] = [{ type: "text", text: asked.prompt }, ...replay];
  return engine.send(row.id, { content, via: "ndjson", ...(key !== undefined && { key }) });
}

/** The turns that the agent will remember before it comes to a message that is sent now. */
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
  owner: string,
  run: { conversation: string; cancelOnDisconnect: boolean; digest: string; sent: AcceptedInput },
): Promise<NonNullable<Dispatched["upload"]>> {
  const { conversation, cancelOnDisconnect, digest, sent } = run;
  const { turnId: turn, after } = sent;
  const expiresAt = Date.now() + settings.uploadTtlMs;
  const { password, change } = issuePassword({ conversation, turn, expiresAt });
  const body: TurnBody = { after, digest, cancelOnDisconnect };
  const parent = toDocumentId(conversation);
  await catalog.write(owner, [{ op: "create", kind: KIND.turn, id: turn, parent, body }, change]);
  return { password, expiresAt };
}

/** Removes old passwords. The next dispatch tries again where another server was faster. */
async function sweep(
  { catalog, settings, logger }: NdjsonServices,
  owner: string,
  session: string,
): Promise<void> {
  try {
    const removals = await sweepPasswords(catalog, owner, settings.uploadTtlMs);
    if (removals.length > 0) await catalog.write(owner, removals);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "not_found") return;
    logger({ level: "warn", message: "Old passwords could not be removed", session, error: String(error) });
  }
}

/** The turn that a request with this key became. */
async function recall(
  { engine, conversations }: NdjsonServices,
  owner: string,
  { row, key, digest }: { row: SessionRow; key: string; digest: string },
): Promise<{ turn: string; after: number } | undefined> {
  const known = await engine.log.recall(row.id, key);
  if (!known) return undefined;
  const { after, accepted } = JSON.parse(known.answer) as {
    after: number;
    accepted: ({ turnId?: string } | undefined)[];
  };
  const turn = accepted[0]?.turnId ?? "";
  const found = await conversations.findTurn(owner, turn);
  if (found && found.body.digest !== digest)
    throw new SluiceError("idempotency_conflict", "The key was used for another request. Use a new one.");
  return { turn, after };
}

function readKey(c: Context<AppEnv>): string | undefined {
  const key = c.req.header("idempotency-key");
  if (key !== undefined && (key === "" || key.length > 255))
    throw new SluiceError("invalid_request", "Idempotency-Key: expected 1 to 255 characters.");
  return key;
}

/** A resend without a conversation means the one that the first request began. */
function toKeyedId(key: string): string {
  return `ses_${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
}
