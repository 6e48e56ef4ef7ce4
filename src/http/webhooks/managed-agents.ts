import { toTimestamp } from "../../dialects/anthropic/resources/resource.ts";
import {
  toWebhookBody,
  toWebhookTypes,
  WEBHOOK_EVENTS,
  type WebhookType,
} from "../../dialects/anthropic/webhook.ts";
import { digestOf } from "../digest.ts";
import type { Message } from "./delivery.ts";
import type { Reporter } from "./walk.ts";

/** The webhooks of Claude Managed Agents, for the endpoints of `sluice serve --webhook`: sessions of every tenant. */
export const managedAgents: Reporter = {
  events: WEBHOOK_EVENTS,
  admits: async () => true,
  async toMessages(event, { row: { id: session, createdAt }, workspace }) {
    const { sequence, time } = event;
    return toWebhookTypes(event).map((type) =>
      toMessage({ session, createdAt, sequence, type, time, workspace }),
    );
  },
  lifecycle: {
    created({ id: session, createdAt }, workspace) {
      const time = toTimestamp(createdAt);
      return toMessage({ session, createdAt, sequence: 0, type: "session.created", time, workspace });
    },
    deleted({ session, created_at: createdAt, deleted_at }, workspace) {
      const time = toTimestamp(deleted_at ?? 0);
      return toMessage({ session, createdAt, sequence: -1, type: "session.deleted", time, workspace });
    },
  },
};

interface Report {
  readonly session: string;
  readonly createdAt: number;
  readonly sequence: number;
  readonly type: WebhookType;
  readonly time: string;
  readonly workspace: string;
}

/** Every server computes the same id for the same event, so a receiver can drop a repeated delivery. */
function toMessage(report: Report): Message {
  const { session, createdAt, sequence, type } = report;
  const id = `wevt_${digestOf(session, createdAt, sequence, type).slice(0, 32)}`;
  return { id, type, session, body: toWebhookBody({ ...report, id }) };
}
