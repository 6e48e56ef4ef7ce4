import {
  type PendingAction,
  type SessionInfo,
  type SluiceEvent,
  SluiceError,
} from "../../../contract/index.ts";
import { defined } from "../../../contract/own-keys.ts";
import { fromEventId } from "../../../dialects/anthropic/ids.ts";
import { refuse } from "../../../dialects/anthropic/resources/resource.ts";
import type { EventLog } from "../../../log/port.ts";
import type { Engine } from "../../../sessions/port.ts";
import type { SessionRecord } from "../sessions/record.ts";

type AnswerType = "user.tool_confirmation" | "user.tool_result" | "user.custom_tool_result";

/** The agent's open request that the event `id` shows. Throws if the request takes no answer of the type `by`. */
export async function findPending(
  engine: Engine,
  { session, info }: SessionRecord,
  { id, by }: { id: string; by: AnswerType },
): Promise<PendingAction> {
  const { log } = engine;
  const source = fromEventId(session, id);
  const asked = source?.index === 0 ? await readEvent(log, session, source.sequence) : undefined;
  if (!asked) throw refuse(`${by}: ${id} is no event of this session.`);
  const pending = info.pendingActions.find(({ sequence }) => sequence === asked.sequence);
  const wanted = pending ? answerOf(asked) : undefined;
  if (pending && wanted === by) return pending;
  if (pending) throw refuse(`${by}: ${id} waits for a ${wanted}.`);
  if (asked.type === "permission.requested" && by === "user.tool_result") {
    const next = await findToolRequest(log, info, asked);
    if (next) return next;
  }
  if (!REQUESTS.has(asked.type)) throw refuse(`${by}: ${id} waits for nothing.`);
  const winner = await findAnswer(log, session, asked);
  const words = winner && `${winner.by === undefined ? "" : ` by ${winner.by}`}: ${winner.resolution}`;
  throw new SluiceError("already_resolved", `${by}: ${id} was resolved already${words ?? "."}`, {
    ...winner,
  });
}

interface Winner {
  readonly resolution: string;
  /** Absent for a question: its answer has no field for its author. */
  readonly by?: string;
}

/** The answer that a request got first, in the words of the other dialects. */
async function findAnswer(log: EventLog, session: string, asked: SluiceEvent): Promise<Winner | undefined> {
  for await (const event of readAnswers(log, session, asked.sequence)) {
    const winner = toWinner(event, asked);
    if (winner) return winner;
  }
  return undefined;
}

function toWinner(event: AnswerEvent, asked: SluiceEvent): Winner | undefined {
  if (event.type === "permission.resolved" && asked.type === "permission.requested") {
    if (event.data.permission_id !== asked.data.permission_id) return undefined;
    const { by } = (event.data.metadata ?? {}) as { by?: unknown };
    return { resolution: event.data.status, ...(typeof by === "string" && { by }) };
  }
  if (event.type === "tool.resolved" && asked.type === "tool.requested") {
    if (event.data.request_id !== asked.data.request_id) return undefined;
    return { resolution: event.data.status, ...defined({ by: event.data.by }) };
  }
  if (event.type === "question.resolved" && asked.type === "question.requested") {
    if (event.data.question_id !== asked.data.question_id) return undefined;
    return { resolution: event.data.response ?? event.data.status };
  }
  return undefined;
}

const ANSWERS = ["permission.resolved", "question.resolved", "tool.resolved"] as const;
type AnswerEvent = Extract<SluiceEvent, { type: (typeof ANSWERS)[number] }>;

async function* readAnswers(log: EventLog, session: string, from: number): AsyncGenerator<AnswerEvent> {
  const types = new Set(ANSWERS);
  for (let after = from; ;) {
    const events = await log.read(session, { after, limit: 16, types });
    for (const { body, sequence } of events) {
      yield JSON.parse(body) as AnswerEvent;
      after = sequence;
    }
    if (events.length === 0) return;
  }
}

const REQUESTS: ReadonlySet<string> = new Set([
  "permission.requested",
  "tool.requested",
  "question.requested",
]);

function answerOf(asked: SluiceEvent): AnswerType {
  if (asked.type === "permission.requested") return "user.tool_confirmation";
  const isBuiltin = asked.type === "tool.requested" && asked.data.builtin === true;
  return isBuiltin ? "user.tool_result" : "user.custom_tool_result";
}

/**
 * Waits until the agent requests the result of a tool that was approved. The tool's runner sees the approval before the
 * agent does, so its result may arrive before that request. The result names the tool by its permission request.
 */
export async function awaitRequest(engine: Engine, session: string, id: string): Promise<void> {
  const source = fromEventId(session, id);
  const asked = source?.index === 0 ? await readEvent(engine.log, session, source.sequence) : undefined;
  if (asked?.type !== "permission.requested" || !(await isAllowed(engine.log, session, asked))) return;
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  for (;;) {
    const info = await engine.info(session);
    if ((await findToolRequest(engine.log, info, asked)) || info.turnId !== asked.turn_id || signal.aborted)
      return;
    await engine.log.moved(session, info.eventCount, { signal }).catch(() => {});
  }
}

const REQUEST_TIMEOUT_MS = 3000;

type Asked = Extract<SluiceEvent, { type: "permission.requested" }>;

async function isAllowed(log: EventLog, session: string, asked: Asked): Promise<boolean> {
  return (await findAnswer(log, session, asked))?.resolution === "approved";
}

async function findToolRequest(
  log: EventLog,
  { sessionId, pendingActions }: SessionInfo,
  asked: Asked,
): Promise<PendingAction | undefined> {
  const callId = (asked.data.metadata as { call_id?: unknown } | undefined)?.call_id;
  for (const pending of pendingActions) {
    if (pending.kind !== "tool") continue;
    const requested = await readEvent(log, sessionId, pending.sequence);
    if (requested?.type === "tool.requested" && requested.data.call_id === callId) return pending;
  }
  return undefined;
}

async function readEvent(log: EventLog, session: string, sequence: number): Promise<SluiceEvent | undefined> {
  const row = await log.find(session);
  if (!row || sequence <= row.floor || sequence > row.head) return undefined;
  const [stored] = await log.read(session, { after: sequence - 1, limit: 1 });
  return stored?.sequence === sequence ? (JSON.parse(stored.body) as SluiceEvent) : undefined;
}
