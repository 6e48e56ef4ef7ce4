import {
  type PendingAction,
  type SessionInfo,
  type SluiceEvent,
  SluiceError,
} from "../../../contract/index.ts";
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
  throw new SluiceError("already_resolved", `${by}: ${id} was resolved already.`);
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
  const types = new Set(["permission.resolved"] as const);
  for (let after = asked.sequence; ;) {
    const events = await log.read(session, { after, limit: 16, types });
    for (const { body, sequence } of events) {
      const { data } = JSON.parse(body) as Extract<SluiceEvent, { type: "permission.resolved" }>;
      if (data.permission_id === asked.data.permission_id) return data.status === "approved";
      after = sequence;
    }
    if (events.length === 0) return false;
  }
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
