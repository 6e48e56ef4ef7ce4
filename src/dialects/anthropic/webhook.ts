import type { EventType, SluiceEvent } from "../../contract/index.ts";
import { toSessionId } from "./ids.ts";
import { isTerminal } from "./turn-frames.ts";

/** What a webhook can tell of a session; the names are not those of the stream. */
export type WebhookType =
  | "session.created"
  | "session.updated"
  | "session.status_run_started"
  | "session.status_rescheduled"
  | "session.status_idled"
  | "session.requires_action"
  | "session.status_terminated"
  | "session.archived"
  | "session.deleted";

/** The events that a webhook may come of. */
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

/** Thin: who wants to know more asks for the session. The same fact gives the same text. */
export function toWebhookBody(webhook: {
  id: string;
  type: WebhookType;
  session: string;
  time: string;
  /** The name of the session's workspace. */
  workspace: string;
}): string {
  const { id, type, session, time, workspace } = webhook;
  return JSON.stringify({
    type: "event",
    id,
    created_at: time,
    data: {
      type,
      id: toSessionId(session),
      organization_id: "org_sluice",
      workspace_id: `wrkspc_${workspace}`,
    },
  });
}
