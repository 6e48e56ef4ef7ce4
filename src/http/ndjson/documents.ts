import type { EventData } from "../../contract/index.ts";

/** The kinds of documents of this dialect. A conversation is the parent of all the others. */
export const KIND = {
  conversation: "ndjson_conversation",
  message: "ndjson_message",
  turn: "ndjson_turn",
  password: "ndjson_password",
  asset: "ndjson_asset",
} as const;

export interface ConversationBody {
  /** The ordinal of the session's row: an id can be used again after its session is deleted. */
  readonly ordinal: number;
  /** The last sequence of the log that the documents include. */
  readonly applied: number;
  readonly turns: number;
  /** How many turns the agent remembers. */
  readonly remembered: number;
}

export interface MessageBody {
  readonly role: "user" | "assistant";
  readonly content: string;
  /** Absent in messages of the history that a client sent with its first message. */
  readonly turn?: string;
  readonly ts?: number;
}

export type TurnStatus = EventData<"turn.ended">["status"];

export interface TurnBody {
  /** The sequence before the turn's first event. */
  readonly after: number;
  /** The digest of the request: it distinguishes a resend from another request with the same key. */
  readonly digest: string;
  /** Whether the turn ends when its last reader has left. */
  readonly cancelOnDisconnect?: boolean;
  /** Absent until the turn has ended. */
  readonly status?: TurnStatus;
}

export interface PasswordBody {
  readonly conversation: string;
  readonly turn: string;
  readonly expiresAt: number;
  readonly usedAt?: number;
}

export interface AssetBody {
  readonly name: string;
  readonly mime: string;
  readonly size: number;
  readonly hash: string;
  readonly turn: string;
}

/** The id of a conversation's document. It differs from the session's id, which is a parent in other dialects. */
export function toDocumentId(conversation: string): string {
  return `conversation:${conversation}`;
}
