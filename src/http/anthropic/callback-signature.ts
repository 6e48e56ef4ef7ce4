import { createHmac, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import type { AppEnv } from "../env.ts";
import { CALLBACKS } from "./path.ts";

const TOLERANCE_MS = 5 * 60_000;

/** Those who sign have no token; what they may, their route says. */
export function isCallback(c: Context<AppEnv>): boolean {
  return c.req.method === "POST" && CALLBACKS.test(c.req.path);
}

export interface CallbackHeaders {
  readonly timestamp: string;
  readonly nonce: string;
  readonly signature: string;
}

/** Undefined where one is missing or is none: a signed text must not be readable in two ways. */
export function readCallbackHeaders(c: Context<AppEnv>): CallbackHeaders | undefined {
  const timestamp = c.req.header("sluice-timestamp") ?? "";
  const nonce = c.req.header("sluice-nonce") ?? "";
  const [, signature] = /^v1=([0-9a-f]{64})$/.exec(c.req.header("sluice-signature") ?? "") ?? [];
  if (signature === undefined || !/^\d{1,12}$/.test(timestamp) || !/^[\w-]{8,128}$/.test(nonce))
    return undefined;
  return { timestamp, nonce, signature };
}

export function secretOf(
  key: string,
  { session, createdAt }: { session: string; createdAt: number },
): string {
  return createHmac("sha256", key)
    .update(JSON.stringify(["callbacks", session, createdAt]))
    .digest("hex");
}

/** Takes the same time for every wrong signature. */
export function isSignedBy(
  secret: string,
  { timestamp, nonce, signature }: CallbackHeaders,
  body: Uint8Array,
): boolean {
  const expected = createHmac("sha256", secret).update(`${timestamp}.${nonce}.`).update(body).digest();
  return timingSafeEqual(expected, Buffer.from(signature, "hex"));
}

export function isTimely({ timestamp }: CallbackHeaders, now = Date.now()): boolean {
  return Math.abs(now - Number(timestamp) * 1000) <= TOLERANCE_MS;
}
