import { createHmac, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { REPLAY_TURN_LIMIT } from "../../dialects/ndjson/index.ts";
import { type Access, DEFAULT_TENANT, isWorkspace, NOBODY, OPERATOR } from "../access/access.ts";
import type { Tokens } from "../access/tokens.ts";
import type { AppEnv, Logger } from "../context.ts";
import { sha256 } from "../digest.ts";
import type { Services } from "../services.ts";
import type { Conversations } from "./conversations.ts";
import type { TurnReaders } from "./readers.ts";

// The small part of the dialect that is loaded at the server's start.

export const STREAM = "/ndjson/stream";
export const CHAT = "/ndjson/chat";
export const CHAT_STREAM = "/ndjson/chat/stream";
export const RESULTS = "/ndjson/results";
export const CONVERSATION = "/ndjson/conversations/{id}";

export interface NdjsonSettings {
  /** The most earlier turns that an agent remembers. Beyond that, it starts anew and gets the newest turns with the prompt. */
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

interface TurnName {
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
  readonly #tokens: Tokens | undefined;

  constructor(token: string | false, ttlMs: number, tokens?: Tokens) {
    this.#tokens = tokens;
    this.#key = token === false ? undefined : createHmac("sha256", token).update("ndjson ticket").digest();
    this.#ttlMs = ttlMs;
  }

  /** Undefined if the server has no token. */
  issue(name: TurnName, { tenant, token }: Owner = OPERATOR, now = Date.now()): string | undefined {
    if (!this.#key) return undefined;
    const until = (now + this.#ttlMs).toString(36);
    const isOwn = tenant === DEFAULT_TENANT && token === undefined;
    const owner = isOwn ? "" : Buffer.from(JSON.stringify({ tenant, token })).toString("base64url");
    const signature = sign(this.#key, name, until, owner);
    return owner === "" ? `${until}.${signature}` : `${until}.${signature}.${owner}`;
  }

  /** The access that the ticket gives: to read the conversation of its turn. Undefined for an invalid ticket. */
  open(ticket: string, name: TurnName, now = Date.now()): Access | undefined {
    const [until = "", signature = "", owner = ""] = ticket.split(".");
    if (!this.#key || !UNTIL.test(until) || Number.parseInt(until, 36) <= now) return undefined;
    const expected = Buffer.from(sign(this.#key, name, until, owner));
    const given = Buffer.from(signature);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    if (owner === "") return { tenant: DEFAULT_TENANT, scope: "read", session: name.conversation };
    const { tenant, token } = JSON.parse(Buffer.from(owner, "base64url").toString()) as Owner;
    return { tenant, scope: "read", session: name.conversation, token };
  }

  /** Admits a browser with its ticket. Also admits the assets of a run, whose route checks a password. */
  async admit(c: Context<AppEnv>): Promise<Access | undefined> {
    if (c.req.path === RESULTS) return c.req.method === "POST" ? NOBODY : undefined;
    if (c.req.path !== CHAT_STREAM || c.req.method !== "GET") return undefined;
    const { ticket, conversation = "", turn = "" } = c.req.query();
    const access = ticket === undefined ? undefined : this.open(ticket, { conversation, turn });
    // A ticket ends with the token of its dispatch.
    const isLive = access?.token === undefined || (await this.#tokens?.isLive(access.token));
    return isLive ? access : undefined;
  }
}

/** The sender of a dispatch. */
type Owner = Pick<Access, "tenant" | "token">;

/** A time in base 36, with at most nine digits. */
const UNTIL = /^[0-9a-z]{1,9}$/;

/** Signs each part by itself: in one joined text, a part of the owner could count as a later time. */
function sign(key: Buffer, { conversation, turn }: TurnName, until: string, owner: string): string {
  const parts = [conversation, turn, until, ...(owner === "" ? [] : [owner])];
  return createHmac("sha256", key).update(JSON.stringify(parts)).digest("base64url");
}

/** The id of a new conversation, from the key of its request: a resend finds the same conversation. */
export function toKeyedId(tenant: string, key: string): string {
  return `ses_${sha256(isWorkspace(tenant) ? `${tenant}\n${key}` : key).slice(0, 32)}`;
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
