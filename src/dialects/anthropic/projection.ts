import type {
  BetaManagedAgentsSessionEvent,
  BetaManagedAgentsStreamSessionEvents,
} from "@anthropic-ai/sdk/resources/beta/sessions";
import type { ContentPart } from "../../contract/index.ts";
import type { Frame } from "../port.ts";
import { Projection } from "../shared/projection.ts";
import { toEventId } from "./ids.ts";
import type { AnthropicState } from "./state.ts";

/** The events that the server writes; a client's events are echoed. */
type Own = Exclude<BetaManagedAgentsSessionEvent, { type: `user.${string}` | `system.${string}` }>;
/** The fields of an event as the official SDK declares them; the projection adds the rest. */
type Fields<E extends { type: string }, T extends E["type"]> = Omit<
  Extract<E, { type: T }>,
  "id" | "type" | "processed_at"
>;
type Preview = Exclude<BetaManagedAgentsStreamSessionEvents, BetaManagedAgentsSessionEvent>;

/** One event of the log as frames, and the state after it. */
export class AnthropicProjection extends Projection<AnthropicState> {
  readonly frames: Frame[] = [];

  idOf(sequence = this.event.sequence, index = 0): string {
    return toEventId(this.event.session_id, sequence, index);
  }

  /** Emits an event of the agent or the session. It counts as processed. */
  emit<T extends Own["type"]>(type: T, fields: Fields<Own, T>, id = this.idOf()): string {
    return this.echo(type, fields, id);
  }

  /** Emits a client's event as the client sent it, when it is processed. */
  echo(type: string, fields: object, id = this.idOf()): string {
    this.frames.push(this.#frame(type, { ...fields, id, type, processed_at: this.event.time }, id));
    return id;
  }

  /** Emits a client's event that waits for its turn. */
  queue(type: string, fields: object, id: string): void {
    if (this.state.view.list) return;
    const event = { ...fields, id, type, processed_at: null };
    // The SSE id differs from that of the processed event, so that a reader can resume after either.
    this.frames.push(this.#frame(type, event, `${id}-queued`));
  }

  /** Emits a preview of an event. No reader can resume from it. */
  preview<T extends Preview["type"]>(type: T, fields: Omit<Extract<Preview, { type: T }>, "type">): void {
    this.frames.push(this.#frame(type, { type, ...fields }, null));
  }

  #frame(type: string, data: object, id: string | null): Frame {
    return { event: this.state.view.legacy ? "message" : type, data: JSON.stringify(data), id };
  }
}

/** The `custom` event that keeps a client's answer to a question as it was sent: `question.resolved` has no field for it. */
export const SENT_EVENT = "anthropic.sent";

/** A client's event as the log keeps it, unknown keys included. */
export interface SentPayload {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The client's events in an input's payload: one, or one with a system message after it. */
export function toSentEvents(payload: unknown): readonly SentPayload[] {
  return (Array.isArray(payload) ? payload : [payload]).filter(isSent);
}

function isSent(value: unknown): value is SentPayload {
  return typeof value === "object" && value !== null && typeof (value as SentPayload).type === "string";
}

/** A message that this dialect has no payload of: its content as text. */
export function toUserMessage(content: readonly ContentPart[]): SentPayload {
  const texts = content.map((part) => ({ type: "text", text: toCaption(part) }));
  return { type: "user.message", content: texts.filter(({ text }) => text !== "") };
}

export function toCaption(part: ContentPart): string {
  if (part.type === "text") return part.text;
  if (part.type === "image") return part.path.startsWith("data:") ? "[image]" : `[image ${part.path}]`;
  return part.type === "file_ref" ? `[file ${part.path}]` : "";
}
