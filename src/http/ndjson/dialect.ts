import { createHmac, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { REPLAY_TURN_LIMIT } from "../../dialects/ndjson/index.ts";
import type { AppEnv, Logger } from "../context.ts";
import type { Services } from "../services.ts";
import type { Conversations } from "./conversations.ts";
import type { TurnReaders } from "./readers.ts";

/** The light part of the dialect, loaded with the server. */

export const STREAM = "/ndjson/stream";
export const CHAT = "/ndjson/chat";
export const CHAT_STREAM = "/ndjson/chat/stream";
export const RESULTS = "/ndjson/results";
export const CONVERSATION = "/ndjson/conversations/{id}";

export interface NdjsonSettings {
  /** How many earlier turns of a conversation an agent gets with a prompt. */
  readonly replayTurnLimit: number;
  /** How long the password for a run's assets is valid. */
  readonly uploadTtlMs: number;
  /** How long the ticket in the address of a turn's events is valid. */
  readonly ticketTtlMs: number;
  /** How long a run waits for a browser after a cut, as browsers reconnect by themselves. */
  readonly reconnectMs: number;
}

export const NDJSON_SETTINGS: NdjsonSettings = {
  replayTurnLimit: REPLAY_TURN_LIMIT,
  uploadTtlMs: 60 * 60_000,
  ticketTtlMs: 24 * 60 * 60_000,
  reconnectMs: 2_500,
};

interface Scope {
  readonly conversation: string;
  readonly turn: string;
}

/**
 * A browser's `EventSource` sends no header, so the address of a turn's events carries a ticket. It permits reading
 * that one turn until it expires. It is signed with a key derived from the server's token, so it needs no store and
 * outlives a restart.
 */
export class Tickets {
  readonly #key: Buffer | undefined;
  readonly #ttlMs: number;

  constructor(token: string | false, ttlMs: number) {
    this.#key = token === false ? undefined : createHmac("sha256", token).update("ndjson ticket").digest();
    this.#ttlMs = ttlMs;
  }

  /** Undefined if the server has no token. */
  issue(scope: Scope, now = Date.now()): string | undefined {
    if (!this.#key) return undefined;
    const until = (now + this.#ttlMs).toString(36);
    return `${until}.${sign(this.#key, scope, until)}`;
  }

  isValid(ticket: string, scope: Scope, now = Date.now()): boolean {
    const [until = "", signature = ""] = ticket.split(".");
    if (!this.#key || !(Number.parseInt(until, 36) > now)) return false;
    const expected = Buffer.from(sign(this.#key, scope, until));
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  /** Admits a browser with its ticket. Also admits the assets of a run, whose route checks a password. */
  admits(c: Context<AppEnv>): boolean {
    if (c.req.path === RESULTS) return c.req.method === "POST";
    if (c.req.path !== CHAT_STREAM || c.req.method !== "GET") return false;
    const { ticket, conversation = "", turn = "" } = c.req.query();
    return ticket !== undefined && this.isValid(ticket, { conversation, turn });
  }
}

function sign(key: Buffer, { conversation, turn }: Scope, until: string): string {
  return createHmac("sha256", key)
    .update(JSON.stringify([conversation, turn, until]))
    .digest("base64url");
}

/** The services that every route of the dialect may use. */
export interface NdjsonServices extends Services {
  readonly catalog: Catalog;
  readonly conversations: Conversations;
  readonly readers: TurnReaders;
  readonly tickets: Tickets;
  readonly settings: NdjsonSettings;
  readonly logger: Logger;
  /** The agent of conversations that name none. */
  readonly defaultAgent: string;
}
