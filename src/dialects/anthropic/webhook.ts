import type { BetaWebhookEvent, BetaWebhookEventData } from "@anthropic-ai/sdk/resources/beta/webhooks";
import type { EventType, SluiceEvent } from "../../contract/index.ts";
import { toSessionId } from "./ids.ts";
import { isTerminal } from "./turns.ts";

/** The types of webhooks; they differ from the stream's. */
export type WebhookType = Extract<
  BetaWebhookEventData["type"],
  | "session.created"
  | "session.updated"
  | "session.status_run_started"
  | "session.status_rescheduled"
  | "session.status_idled"
  | "session.requires_action"
  | "session.status_terminated"
  | "session.archived"
  | "session.deleted"
>;

/** The event types that may cause a webhook. */
export const WEBHOOK_EVENTS: ReadonlySet<EventType> = new Set<EventType>([
  "session.updated",
  "session.ended",
  "session.deleted",
  "turn.started",
  "turn.waiting",
  "turn.retrying",
  "turn.resumed",
  "turn.ended",
]);

export function toWebhookTypes(event: SluiceEvent): readonly WebhookType[] {
  switch (event.type) {
    case "turn.started":
    case "turn.resumed":
      return ["session.status_run_started"];
    case "turn.waiting":
      return ["session.status_idled", "session.requires_action"];
    case "turn.retrying":
      return ["session.status_rescheduled"];
    case "turn.ended":
      return isTerminal(event.data) ? [] : ["session.status_idled"];
    case "session.ended":
      return ["session.status_terminated"];
    case "session.updated": {
      const { title, metadata, agent, archived_at } = event.data;
      if (archived_at !== undefined) return ["session.archived"];
      return [title, metadata, agent].some((field) => field !== undefined) ? ["session.updated"] : [];
    }
    default:
      return [];
  }
}

/** A webhook has only ids; a receiver retrieves the session. The same event gives the same text. */
export function toWebhookBody(webhook: {
  id: string;
  type: WebhookType;
  session: string;
  time: string;
  /** The name of a workspace in the sense of the Claude API; not the folder of the session. */
  workspace: string;
}): string {
  const { id, type, session, time, workspace } = webhook;
  const event: BetaWebhookEvent = {
    type: "event",
    id,
    created_at: time,
    data: {
      type,
      id: toSessionId(session),
      organization_id: "org_sluice",
      workspace_id: `wrkspc_${workspace}`,
    },
  };
  return JSON.stringify(event);
}
