import type { SluiceEvent } from "../../contract/index.ts";
import { toSystemWords } from "../../dialects/anthropic/handing.ts";
import { toEventId, toThreadId } from "../../dialects/anthropic/ids.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { type Accompanied, type Sendable, toAccompanied } from "../../dialects/anthropic/sendable.ts";
import { toSystemPart } from "../../sessions/instructions.ts";
import type { Submitted } from "../../sessions/port.ts";
import type { Submission } from "../../sessions/submission.ts";
import { toParts } from "./attachments.ts";
import { awaitRequest, findPending } from "./pending.ts";
import { chooseKey } from "./resend.ts";
import type { AnthropicServices } from "./services.ts";
import type { SessionRecord } from "./session-record.ts";

export interface Sent {
  readonly record: SessionRecord;
  readonly events: readonly Sendable[];
  /** What tells a resend from a second message: what was said, or a key of its own. */
  readonly request?: { readonly digest: string; readonly resent: boolean };
  readonly key?: string;
}

/** A client's events into its session, all of them or none; answers them as they will be told. */
export async function send(
  services: AnthropicServices,
  owner: string,
  { record, events, request, key }: Sent,
): Promise<object[]> {
  const { engine, locks } = services;
  const { session } = record;
  const batch = toAccompanied(events);
  assertThreads(session, batch);
  for (const { event } of batch)
    if (event.type === "user.tool_result") await awaitRequest(engine, session, event.tool_use_id as string);
  // An interrupt does not wait for the files of a message that came before it.
  const lock = batch.every(({ event }) => event.type === "user.interrupt") ? `${session} interrupt` : session;
  return locks.run(lock, async () => {
    const keyed = request && (await chooseKey(engine.log, session, { ...request, now: Date.now() }));
    if (keyed?.known) return echo(services, session, batch, JSON.parse(keyed.known.answer) as Submitted);
    // What was open when the request came may have changed while it waited for its turn.
    const now = { ...record, info: await engine.info(session) };
    const submissions: Submission[] = [];
    for (const one of batch) submissions.push(await toSubmission(services, owner, { record: now, one }));
    const own = keyed?.key ?? key;
    const options = { via: "anthropic", ...(own !== undefined && { key: own }) };
    return echo(services, session, batch, await engine.submit(session, submissions, options));
  });
}

async function toSubmission(
  services: AnthropicServices,
  owner: string,
  { record, one: { event, system } }: { record: SessionRecord; one: Accompanied },
): Promise<Submission> {
  const { session } = record;
  const payload = system ? [event, system] : event;
  switch (event.type) {
    case "user.message": {
      const parts = await toParts(services, owner, { session, blocks: event.content });
      const instructions = system && { instructions: toSystemWords(system) };
      return { kind: "message", content: parts, payload, ...instructions };
    }
    case "user.interrupt":
      return { kind: "interrupt", by: "user", payload };
    case "user.tool_confirmation": {
      const { id } = await findPending(services.engine, record, { id: event.tool_use_id, by: event.type });
      const isDenied = event.result === "deny";
      const message = isDenied && event.deny_message ? { message: event.deny_message } : {};
      return { kind: "permission", id, reply: isDenied ? "reject" : "once", by: "user", ...message, payload };
    }
    case "user.tool_result":
    case "user.custom_tool_result": {
      const asked = event.type === "user.tool_result" ? event.tool_use_id : event.custom_tool_use_id;
      const pending = await findPending(services.engine, record, { id: asked as string, by: event.type });
      const blocks = event.content ?? [];
      const parts = await toParts(services, owner, { session, blocks, inline: true });
      // A turn that runs cannot be told otherwise: what comes with an answer stands behind it.
      const content = system ? [...parts, toSystemPart(toSystemWords(system))] : parts;
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
      return { kind: "question", id: pending.id, answers: [[words.join("\n")]], by: "user" };
    }
  }
}

/** A queued message has not been processed; whatever else was accepted has. */
async function echo(
  { engine }: AnthropicServices,
  session: string,
  batch: readonly Accompanied[],
  { after, accepted }: Submitted,
): Promise<object[]> {
  const stored = await engine.log.read(session, { after, limit: 64 + 8 * batch.length });
  const events = stored.map(({ body }) => JSON.parse(body) as SluiceEvent);
  const timeOf = (sequence: number): string | undefined =>
    events.find((event) => event.sequence === sequence)?.time;
  const startOf = (inputId: string | undefined): string | undefined =>
    events.find((event) => event.type === "turn.started" && event.data.input_ids.includes(inputId ?? ""))
      ?.time;
  return batch.flatMap(({ event, system }, at) => {
    const fact = accepted[at];
    if (!fact) return [];
    const { sequence, inputId } = fact;
    const processed_at = (event.type === "user.message" ? startOf(inputId) : timeOf(sequence)) ?? null;
    const told = [event, ...(system ? [system] : [])];
    return told.map((one, index) =>
      Object.assign({}, one, { id: toEventId(session, sequence, index), processed_at }),
    );
  });
}

/** There is one thread; whoever names another one means another session. */
function assertThreads(session: string, batch: readonly Accompanied[]): void {
  for (const { event } of batch) {
    const thread = "session_thread_id" in event ? event.session_thread_id : undefined;
    if (thread === undefined || thread === null || thread === toThreadId(session)) continue;
    throw refuse(`${event.type}: there is no thread ${JSON.stringify(thread)} in this session.`);
  }
}
