import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import type { AppEnv } from "./context.ts";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Allows the addresses of this machine's interfaces as hosts. DNS rebinding sends a name as `Host`, never an address. */
export const OWN_ADDRESSES = "own addresses";

/** Refuses DNS rebinding: a foreign page whose name resolves to this server sends that name in `Host`. */
export function requireHost(allowed: readonly string[]): MiddlewareHandler<AppEnv> {
  const takesOwn = allowed.includes(OWN_ADDRESSES);
  const named = allowed.filter((host) => host !== OWN_ADDRESSES);
  const names = new Set([...LOOPBACK, ...named.map(toHostname)]);
  return async (c, next) => {
    const host = hostOf(c);
    const name = toHostname(host);
    if (names.has("*") || names.has(name)) return next();
    if (takesOwn && isOwnAddress(name)) return next();
    const detail = `This server does not answer for ${JSON.stringify(host)}. Use localhost, or start it with that name among the allowed hosts (sluice serve --allow-host ${toExample(name)}).`;
    throw new SluiceError("foreign_host", detail);
  };
}

export function isLoopback(host: string): boolean {
  return LOOPBACK.includes(toHostname(host));
}

/** Refuses pages whose origin is neither listed nor the server's own. Pages of listed origins may read the response. */
export function requireOrigin(allowed: readonly string[]): MiddlewareHandler<AppEnv> {
  const origins = new Set(allowed.map((origin) => origin.toLowerCase().replace(/\/$/, "")));
  return async (c, next) => {
    const origin = c.req.header("origin");
    if (origin === undefined) return next();
    const listed = origins.has("*") || origins.has(origin.toLowerCase());
    if (!listed && !isSameHost(origin, hostOf(c))) {
      const detail = `The origin ${JSON.stringify(origin)} is not allowed here. Start the server with it among the allowed origins (sluice serve --allow-origin).`;
      throw new SluiceError("foreign_origin", detail);
    }
    if (!listed) return next();
    const cors = toCorsHeaders(origin);
    c.set("cors", cors);
    if (c.req.method === "OPTIONS" && c.req.header("access-control-request-method")) {
      const asked = c.req.header("access-control-request-headers");
      const headers =
        asked && c.get("dialect")?.allowsAnyHeader ? { "access-control-allow-headers": asked } : {};
      return new Response(null, { status: 204, headers: { ...cors, ...PREFLIGHT, ...headers } });
    }
    return next();
  };
}

const PREFLIGHT = {
  "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
  "access-control-allow-headers":
    "authorization, content-type, idempotency-key, if-match, last-event-id, x-upload-otp",
  "access-control-max-age": "600",
};

function toCorsHeaders(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers":
      "etag, sluice-turn-id, sluice-conversation, sluice-upload-otp, sluice-command-id, sluice-port, sluice-oldest, x-run-id, request-id, retry-after",
    vary: "origin",
  };
}

/** Whether the `Origin` header names the address that the request was sent to. */
export function isOwnOrigin(c: Context<AppEnv>): boolean {
  const origin = c.req.header("origin");
  return origin !== undefined && isSameHost(origin, hostOf(c));
}

function hostOf(c: Context<AppEnv>): string {
  return c.req.header("host") ?? new URL(c.req.url).host;
}

/** The name without the port; IPv6 keeps its brackets. */
function toHostname(host: string): string {
  const name = host.toLowerCase().replace(/:\d*$/, "");
  return name.includes(":") && !name.startsWith("[") ? `[${host.toLowerCase()}]` : name;
}

function toExample(name: string): string {
  return /^[\w.:[\]-]{1,253}$/.test(name) ? name : "NAME";
}

// The interfaces are read for each request, as they come and go.
function isOwnAddress(name: string): boolean {
  const address = name.replace(/^\[|\]$/g, "");
  if (isIP(address) === 0) return false;
  return Object.values(networkInterfaces()).some((entries) =>
    entries?.some((entry) => entry.address === address),
  );
}

function isSameHost(origin: string, host: string): boolean {
  return URL.canParse(origin) && new URL(origin).host === host.toLowerCase();
}
