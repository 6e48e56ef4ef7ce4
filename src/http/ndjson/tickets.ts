import { createHmac, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import { CHAT_STREAM, RESULTS } from "./path.ts";

interface Scope {
  readonly conversation: string;
  readonly turn: string;
}

/**
 * A browser's `EventSource` sends no header, so the address of a turn's events carries a ticket: good for reading that
 * one turn, for a while, and for nothing else. Made from the server's token, it outlives a restart and is kept nowhere.
 */
export class Tickets {
  readonly #key: Buffer | undefined;
  readonly #ttlMs: number;

  constructor(token: string | false, ttlMs: number) {
    this.#key = token === false ? undefined : createHmac("sha256", token).update("ndjson ticket").digest();
    this.#ttlMs = ttlMs;
  }

  /** Undefined where everybody may read anyway. */
  issue(scope: Scope, now = Date.now()): string | undefined {
    if (!this.#key) return undefined;
    const until = (now + this.#ttlMs).toString(36);
    return `${until}.${sign(this.#key, scope, until)}`;
  }

  isGood(ticket: string, scope: Scope, now = Date.now()): boolean {
    const [until = "", signature = ""] = ticket.split(".");
    if (!this.#key || !(Number.parseInt(until, 36) > now)) return false;
    const expected = Buffer.from(sign(this.#key, scope, until));
    const given = Buffer.from(signature);
    return given.length === expected.length && timingSafeEqual(given, expected);
  }

  /** Who gets in without the server's token: a browser with its ticket, and a run with its password, which its route asks for. */
  admits(c: Context<AppEnv>): boolean {
    if (c.req.path === RESULTS) return c.req.method === "POST";
    if (c.req.path !== CHAT_STREAM || c.req.method !== "GET") return false;
    const { ticket, conversation = "", turn = "" } = c.req.query();
    return ticket !== undefined && this.isGood(ticket, { conversation, turn });
  }
}

function sign(key: Buffer, { conversation, turn }: Scope, until: string): string {
  return createHmac("sha256", key)
    .update(JSON.stringify([conversation, turn, until]))
    .digest("base64url");
}
