import { buffer } from "node:stream/consumers";
import type { ContentPart, SluiceEvent } from "../../../contract/index.ts";
import { toEventId, toThreadId } from "../../../dialects/anthropic/ids.ts";
import {
  type Accompanied,
  type AgentPart,
  type ByteSource,
  type MessageBlock,
  type ResultBlock,
  type Sendable,
  toAccompanied,
  toAgentPart,
  toSystemText,
} from "../../../dialects/anthropic/parse.ts";
import { SENT_EVENT } from "../../../dialects/anthropic/projection.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import { UPLOADS } from "../../../dialects/anthropic/resources/session.ts";
import { readKept } from "../../../log/port.ts";
import { toSystemPart } from "../../../sessions/inbox/instructions.ts";
import type { Submission } from "../../../sessions/inbox/submission.ts";
import type { Submitted } from "../../../sessions/port.ts";
import { readChunks } from "../../body/read.ts";
import { digestOf } from "../../digest.ts";
import { chooseKey } from "../idempotency.ts";
import { readContent } from "../resources/files.ts";
import type { TenantScope } from "../route.ts";
import type { SessionRecord } from "../sessions/record.ts";
import { awaitRequest, findPending } from "./pending.ts";

/** A client's events, still to be sent. */
interface Sending {
  readonly record: SessionRecord;
  readonly events: readonly Sendable[];
  /** Distinguishes a resend from an equal second request. */
  readonly request?: { readonly digest: string; readonly resent: boolean };
  /** The idempotency key of a session's initial events, which come with the request that creates it. */
  readonly key?: string;
}

/** Submits a client's events, all of them or none; returns them as the list will show them. */
export async function send(
  scope: TenantScope,
  { record, events, request, key }: Sending,
): Promise<EchoedEvent[]> {
  const { engine, locks } = scope;
  const { session } = record;
  const batch = toAccompanied(events);
  assertThreads(session, batch);
  // The result of an approved tool may arrive before the agent has requested it.
  for (const { event } of batch)
    if (event.type === "user.tool_result") await awaitRequest(engine, session, event.tool_use_id as string);
  // An interrupt does not wait for the files of an earlier message.
  const lock = batch.every(({ event }) => event.type === "user.interrupt") ? `${session} interrupt` : session;
  return locks.run(lock, async () => {
    const chosen = request && (await chooseKey(engine.log, session, { ...request, now: Date.now() }));
    if (chosen?.known) return echo(scope, session, batch, JSON.parse(chosen.known.answer) as Submitted);
    // The agent's open requests may have changed while this call waited for the lock.
    const current = { ...record, info: await engine.info(session) };
    const submissions: Submission[] = [];
    for (const one of batch) submissions.push(await resolveSubmission(scope, { record: current, one }));
    const idempotencyKey = chosen?.key ?? key;
    const options = { via: "anthropic", ...(idempotencyKey !== undefined && { key: idempotencyKey }) };
    return echo(scope, session, batch, await engine.submit(session, submissions, options));
  });
}

async function resolveSubmission(
  scope: TenantScope,
  { record, one: { event, system } }: { record: SessionRecord; one: Accompanied },
): Promise<Submission> {
  const { session } = record;
  const payload = system ? [event, system] : event;
  switch (event.type) {
    case "user.message": {
      const parts = await resolveParts(scope, { session, blocks: event.content });
      const instructions = system && { instructions: toSystemText(system) };
      return { kind: "message", content: parts, payload, ...instructions };
    }
    case "user.interrupt":
      return { kind: "interrupt", by: "user", payload };
    case "user.tool_confirmation": {
      const { id } = await findPending(scope.engine, record, { id: event.tool_use_id, by: event.type });
      const isDenied = event.result === "deny";
      const message = isDenied && event.deny_message ? { message: event.deny_message } : {};
      return { kind: "permission", id, reply: isDenied ? "reject" : "once", by: "user", ...message, payload };
    }
    case "user.tool_result":
    case "user.custom_tool_result": {
      const asked = event.type === "user.tool_result" ? event.tool_use_id : event.custom_tool_use_id;
      const pending = await findPending(scope.engine, record, { id: asked as string, by: event.type });
      const blocks = event.content ?? [];
      const parts = await resolveParts(scope, { session, blocks, inline: true });
      // A running turn takes no new instructions, so a system message follows the answer as content.
      const content = system ? [...parts, toSystemPart(toSystemText(system))] : parts;
      if (pending.kind !== "question")
        return {
          kind: "tool",
          id: pending.id,
          content,
          isError: event.is_error === true,
          by: "user",
          payload,
        };
      const words = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
      // `question.resolved` has no field for the payload, so an event of its own keeps it.
      const events = [{ name: SENT_EVENT, value: payload }];
      return { kind: "question", id: pending.id, answers: [[words.join("\n")]], by: "user", events };
    }
  }
}

/** A sent event with its id and the time of its processing. */
type EchoedEvent = Sendable & { readonly id: string; readonly processed_at: string | null };

/** The sent events as the list shows them. Only a queued message has no time of processing. */
async function echo(
  { engine }: Pick<TenantScope, "engine">,
  session: string,
  batch: readonly Accompanied[],
  { after, accepted }: Submitted,
): Promise<EchoedEvent[]> {
  // Enough for a few events of each submission and those that the agent writes between them.
  const limit = 64 + 8 * batch.length;
  // The answer to a resend may be older than the oldest event that is kept.
  const stored = await readKept(engine.log, session, { after, limit });
  const events = stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
  const timeOf = (sequence: number): string | undefined =>
    events.find((event) => event.sequence === sequence)?.time;
  const startOf = (inputId: string | undefined): string | undefined =>
    events.find((event) => event.type === "turn.started" && event.data.input_ids.includes(inputId ?? ""))
      ?.time;
  return batch.flatMap(({ event, system }, at) => {
    const input = accepted[at];
    if (!input) return [];
    const { sequence, inputId } = input;
    const processed_at = (event.type === "user.message" ? startOf(inputId) : timeOf(sequence)) ?? null;
    const echoed = [event, ...(system ? [system] : [])];
    return echoed.map((one, index) =>
      Object.assign({}, one, { id: toEventId(session, sequence, index), processed_at }),
    );
  });
}

/** Refuses ids of other threads: a session has one thread. */
function assertThreads(session: string, batch: readonly Accompanied[]): void {
  for (const { event } of batch) {
    const thread = "session_thread_id" in event ? event.session_thread_id : undefined;
    if (thread === undefined || thread === null || thread === toThreadId(session)) continue;
    throw refuse(`${event.type}: there is no thread ${JSON.stringify(thread)} in this session.`);
  }
}

interface Source {
  readonly size: number;
  /** Opens the content. A file is not held in memory. */
  open(): Uint8Array | AsyncIterable<Uint8Array>;
  readonly mimeType: string;
  /** Relative to the folder of uploads. Equal bytes have equal paths. */
  readonly path: string;
}

async function toBuffer(content: Uint8Array | AsyncIterable<Uint8Array>): Promise<Buffer> {
  return content instanceof Uint8Array ? Buffer.from(content) : buffer(content);
}

/** A client's blocks for the agent: images as bytes, documents as files in the sandbox. With `inline`, a text document stays text. */
async function resolveParts(
  scope: TenantScope,
  {
    session,
    blocks,
    inline,
  }: { session: string; blocks: readonly (MessageBlock | ResultBlock)[]; inline?: boolean },
): Promise<ContentPart[]> {
  const parts: ContentPart[] = [];
  for (const block of blocks) {
    const agentPart = toAgentPart(block);
    if (!agentPart) continue;
    if (agentPart.about !== undefined) parts.push({ type: "text", text: agentPart.about });
    if (agentPart.kind === "part") parts.push(agentPart.part);
    else parts.push(await resolvePart(scope, { session, agentPart, inline: inline === true }));
  }
  return parts;
}

async function resolvePart(
  scope: TenantScope,
  {
    session,
    agentPart,
    inline,
  }: { session: string; agentPart: Exclude<AgentPart, { kind: "part" }>; inline: boolean },
): Promise<ContentPart> {
  const { kind, source } = agentPart;
  if (inline && source.type === "text") return { type: "text", text: source.data };
  const { size, open, mimeType, path } = await findSource(scope, source);
  if (kind === "image") {
    if (!mimeType.startsWith("image/")) throw refuse(`image: the file is ${mimeType}, which is no image.`);
    // An image is part of its message, so it is held in memory like one.
    if (size > scope.limits.json)
      throw refuse(`image: the file has ${size} bytes, and an image at most ${scope.limits.json}.`);
    const data = (await toBuffer(open())).toString("base64");
    return { type: "image", path: `data:${mimeType};base64,${data}`, mime: mimeType };
  }
  const target = `${UPLOADS}/${path}`;
  await (await scope.engine.files(session)).write(target, open());
  return { type: "file_ref", path: target, action: "read" };
}

async function findSource(
  { collections, catalog, tenant }: TenantScope,
  source: ByteSource,
): Promise<Source> {
  if (source.type === "text") {
    const path = `document-${digestOf(source.data).slice(0, 12)}.txt`;
    const content = Buffer.from(source.data);
    return { size: content.length, open: () => content, mimeType: "text/plain", path };
  }
  if (source.type === "base64") {
    const extension =
      source.mediaType
        .split("/")
        .at(-1)
        ?.replaceAll(/[^\w]+/g, "-") ?? "bin";
    const path = `document-${digestOf(source.data).slice(0, 12)}.${extension}`;
    const content = Buffer.from(source.data, "base64");
    return { size: content.length, open: () => content, mimeType: source.mediaType, path };
  }
  const file = await collections.files.get(tenant, source.fileId);
  const stored = await readContent(catalog, file.body);
  const path = `${file.id}/${file.body.filename}`;
  return { size: stored.size, open: () => readChunks(stored.stream()), mimeType: file.body.mime_type, path };
}
