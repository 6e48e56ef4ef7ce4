import type { EventData } from "../../contract/index.ts";

/** What this dialect keeps in the catalog, below one document for each conversation. */

export const KIND = {
  conversation: "ndjson_conversation",
  message: "ndjson_message",
  turn: "ndjson_turn",
  password: "ndjson_password",
  asset: "ndjson_asset",
} as const;

export interface ConversationBody {
  /** Of the session's row: an id can be used again once its session is deleted. */
  readonly ordinal: number;
  /** How far the documents have followed the log. */
  readonly applied: number;
  readonly turns: number;
  /** How many of them the agent has in its memory. */
  readonly remembered: number;
}

export interface MessageBody {
  readonly role: "user" | "assistant";
  readonly content: string;
  /** Undefined for what a client brought along. */
  readonly turn?: string;
  readonly ts?: number;
}

export type TurnStatus = EventData<"turn.ended">["status"];

export interface TurnBody {
  /** The sequence before its first event. */
  readonly after: number;
  /** What was asked for, so that a resend can be told from another request. */
  readonly digest: string;
  /** Whether the run ends when its own readers have gone. */
  readonly cancelOnDisconnect?: boolean;
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

/** Documents of other dialects may have the session's id as their parent. */
export function toDocumentId(conversation: string): string {
  return `conversation:${conversation}`;
}
