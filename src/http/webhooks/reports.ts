import { type EventType, own, type SluiceEvent, type WebhookType } from "../../contract/index.ts";
import { agUi } from "../../dialects/ag-ui/index.ts";
import { isTerminal } from "../../dialects/anthropic/turns.ts";
import { toWebhookBody, type WebhookType as ManagedType } from "../../dialects/anthropic/webhook.ts";
import { ndjson } from "../../dialects/ndjson/index.ts";
import type { Dialect } from "../../dialects/port.ts";
import { content } from "../../dialects/sdk/index.ts";
import type { EventLog, SessionRow } from "../../log/port.ts";
import { digestOf } from "../digest.ts";
import { readStateAt } from "../stream/cursor.ts";
import type { Message } from "./delivery.ts";
import type { StoredWebhook } from "./store.ts";
import type { Reporter } from "./walk.ts";

/** The events of the log behind each type of report. */
const SOURCES: Readonly<Record<WebhookType, readonly string[]>> = {
  "ask.opened": ["permission.requested", "question.requested", "tool.requested"],
  "turn.ended": ["turn.ended"],
  "session.ended": ["session.ended"],
  "budget.reached": ["budget.reached"],
};

/** A larger payload leaves the event out; the receiver reads it from the session. */
const MAX_BODY = 256 * 1024;

/** The current metadata of a session; that of its creation if absent. */
export type MetadataOf = (session: string) => Promise<Readonly<Record<string, unknown>> | undefined>;

/** The reporter of a webhook of /v1/webhooks. */
export function createReporter(
  webhook: StoredWebhook,
  { log, metadataOf }: { log: EventLog; metadataOf?: MetadataOf | undefined },
): Reporter {
  const { types, session, agent, metadata, workspace } = webhook;
  const toBody = bodyOf(webhook, log);
  return {
    events: new Set(types.flatMap((type) => SOURCES[type])),
    tenant: workspace,
    ...(session !== undefined && { session }),
    async admits(row, tenant) {
      if (tenant !== workspace) return false;
      if (session !== undefined && session !== row.id) return false;
      if (agent !== undefined && agent !== row.spec.agent) return false;
      if (metadata === undefined) return true;
      const known = (await metadataOf?.(row.id).catch(() => undefined)) ?? row.spec.metadata ?? {};
      return Object.entries(metadata).every(([name, value]) => String(own(known, name) ?? "") === value);
    },
    async toMessages(event, { row }) {
      const type = types.find((one) => SOURCES[one].includes(event.type));
      if (type === undefined) return [];
      if (type === "ask.opened" && (await isAnsweredByPolicy(log, row, event))) return [];
      const id = `msg_${digestOf(webhook.id, row.id, row.createdAt, event.sequence).slice(0, 32)}`;
      const body = await toBody({ id, type, event, row });
      return body === undefined ? [] : [{ id, type, session: row.id, body }];
    },
  };
}

/** The message of `POST /v1/webhooks/{id}/test`. */
export function toTestMessage({ id: webhook }: StoredWebhook, now: number): Message {
  const id = `msg_${digestOf(webhook, now, "test").slice(0, 32)}`;
  const type = "webhook.test";
  return {
    id,
    type,
    body: JSON.stringify({ type, timestamp: new Date(now).toISOString(), data: { webhook } }),
  };
}

interface Report {
  readonly id: string;
  readonly type: WebhookType;
  readonly event: SluiceEvent;
  readonly row: SessionRow;
}

type ToBody = (report: Report) => Promise<string | undefined>;

function bodyOf({ as, workspace }: StoredWebhook, log: EventLog): ToBody {
  switch (as) {
    case "universal":
      return async (report) => toPayload(report, { event: report.event });
    case "anthropic":
      return async ({ id, type, event, row }) => {
        const managedType = toManagedType(type, event);
        const { time } = event;
        return managedType && toWebhookBody({ id, type: managedType, session: row.id, time, workspace });
      };
    case "ag-ui":
      return toFrameBody(log, agUi, {});
    case "ndjson":
      return toFrameBody(log, ndjson, {});
    default:
      return toFrameBody(log, content, { only: as });
  }
}

/** The frames of the event in a dialect whose state begins with the turn. */
function toFrameBody<State, View>(log: EventLog, dialect: Dialect<State, View>, view: View): ToBody {
  return async (report) => {
    const { row, event } = report;
    const after = event.sequence - 1;
    const { ordinal } = row;
    const state = await readStateAt(
      log,
      { session: row.id, ordinal, dialect, view },
      Math.max(after, row.floor),
    );
    const raw = dialect.wantsRaw?.(view) ?? false;
    const [stored] = await log.read(row.id, { after, limit: 1, raw, ordinal });
    const frames = stored ? dialect.project(state, stored).frames : [];
    return toPayload(report, { frames: frames.map(({ data }) => JSON.parse(data) as unknown) });
  };
}

function toPayload({ type, event, row }: Report, content: Record<string, unknown>): string {
  const { sequence, time: timestamp } = event;
  const about = { session: row.id, agent: row.spec.agent, sequence };
  const whole = JSON.stringify({ type, timestamp, data: { ...about, ...content } });
  if (whole.length <= MAX_BODY) return whole;
  return JSON.stringify({ type, timestamp, data: { ...about, truncated: true } });
}

/** Claude Managed Agents has no word for a budget, and reports the end of a session's last turn with the session. */
export function toManagedType(type: WebhookType, event: SluiceEvent): ManagedType | undefined {
  if (type === "ask.opened") return "session.requires_action";
  if (type === "session.ended") return "session.status_terminated";
  const isIdle = event.type === "turn.ended" && !isTerminal(event.data);
  return isIdle ? "session.status_idled" : undefined;
}

const RESOLVED: ReadonlySet<EventType> = new Set<EventType>([
  "permission.resolved",
  "question.resolved",
  "tool.resolved",
]);

/** The session's settings answer some requests in the commit that opens them: nobody was asked. */
async function isAnsweredByPolicy(log: EventLog, row: SessionRow, event: SluiceEvent): Promise<boolean> {
  const asked = idOf(event);
  const { id, ordinal } = row;
  for (let after = event.sequence; ;) {
    const page = await log.read(id, { after, limit: 16, types: RESOLVED, ordinal });
    for (const { sequence, body } of page) {
      const resolved = JSON.parse(body) as SluiceEvent;
      // The events of one commit have one time.
      if (resolved.time !== event.time) return false;
      if (idOf(resolved) === asked) return true;
      after = sequence;
    }
    if (page.length === 0) return false;
  }
}

function idOf({ data }: SluiceEvent): unknown {
  const { permission_id, question_id, request_id } = data as Record<string, unknown>;
  return permission_id ?? question_id ?? request_id;
}
