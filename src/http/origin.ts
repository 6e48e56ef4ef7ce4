import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type { Context, MiddlewareHandler } from "hono";
import { SluiceError } from "../contract/index.ts";
import { isAgUi } from "./ag-ui/path.ts";
import { isAnthropic } from "./anthropic/path.ts";
import type { AppEnv } from "./env.ts";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** Among the allowed hosts: the addresses of this machine's interfaces. No page has one for its name unless it is ours. */
export const OWN_ADDRESSES = "own addresses";

/** A page of a foreign name that resolves to us (DNS rebinding) still says its own name in `Host`. */
export function requireHost(allowed: readonly string[]): MiddlewareHandler<AppEnv> {
  const takesOwn = allowed.includes(OWN_ADDRESSES);
  const named = allowed.filter((host) => host !== OWN_ADDRESSES);
  const names = new Set([...LOOPBACK, ...named.map(toHostname)]);
  return async (c, next) => {
    const host = hostOf(c);
    const name = toHostname(host);
    if (names.has("*") || names.has(name)) return next();
    if (takesOwn && isOwnAddress(name)) return next();
    throw new SluiceError(
      "foreign_host",
      `This server does not answer for ${JSON.stringify(host)}. Use localhost, or start it with that name among the allowed hosts (sluice serve --allow-host ${toExample(name)}).`,
    );
  };
}

/** A browser says where a request comes from; only pages that were let in get through, and may read the answer. */
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
      // Clients of other dialects bring headers of their own, more with every version.
      const headers =
        asked && (isAnthropic(c.req.path) || isAgUi(c.req.path))
          ? { "access-control-allow-headers": asked }
          : {};
      return new Response(null, { status: 204, headers: { ...cors, ...PREFLIGHT, ...headers } });
    }
    return next();
  };
}

const PREFLIGHT = {
  "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
  "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id, x-upload-otp",
  "access-control-max-age": "600",
};

function toCorsHeaders(origin: string): Record<string, string> {
  return {
    "access-control-allow-origin": origin,
    "access-control-expose-headers":
      "sluice-turn-id, sluice-conversation, sluice-upload-otp, sluice-command-id, sluice-port, sluice-oldest, x-run-id, request-id, retry-after",
    vary: "origin",
  };
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

// Asked each time: interfaces come and go.
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
