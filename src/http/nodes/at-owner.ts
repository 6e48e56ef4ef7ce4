import { setTimeout as sleep } from "node:timers/promises";
import type { Context, MiddlewareHandler } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import { isHeldElsewhere } from "../../sessions/lifecycle/claim.ts";
import { keepBody } from "../body/read.ts";
import type { AppEnv } from "../context.ts";
import { forward, MISDIRECTED_HEADER, NODE_HEADER, type Outcome } from "./forward.ts";
import type { Nodes, Peer } from "./port.ts";
import { FORWARD_HEADER, verify } from "./signature.ts";

/** Finds the sessions that a request names. Only the node that has the first existing one can serve the request. */
export type OwnerRule = (request: NamingRequest) => readonly string[] | Promise<readonly string[]>;

export interface NamingRequest {
  readonly c: Context<AppEnv>;
  readonly tenant: string;
  readonly catalog: Catalog | undefined;
  /** A parameter of the path, decoded. */
  param(name: string): string;
  query(name: string): string | undefined;
  /** The JSON of the body; an empty object where it is none. */
  body(): Promise<Readonly<Record<string, unknown>>>;
}

export interface OwnedRoute {
  readonly nodes: Nodes;
  readonly rule: OwnerRule;
  readonly catalog: Catalog | undefined;
  /** The most bytes of a JSON body; undefined for a body that is passed on as it comes. */
  readonly jsonLimit: number | undefined;
}

const PAUSE_MS = 150;

/** Serves a request at the node that has its session: by `serve` here, else by that node. */
export async function atOwner(
  c: Context<AppEnv>,
  route: OwnedRoute,
  serve: () => Promise<Response>,
): Promise<Response> {
  const { nodes, jsonLimit } = route;
  const body = jsonLimit === undefined ? undefined : await keepBody(c, jsonLimit);
  const sessions = await route.rule(toNaming(c, route, body));
  for (const deadline = performance.now() + nodes.patienceMs; ; await sleep(PAUSE_MS)) {
    const peer = await locate(nodes, sessions);
    const outcome = peer ? await ask(c, { nodes, peer, body }) : await tryHere(c, serve);
    if (outcome instanceof Response || isSent(outcome)) return outcome;
    if (c.req.raw.signal.aborted) throw unreachable(peer);
    const isWhole = jsonLimit !== undefined || outcome === "refused" || !hasBody(c);
    if (outcome === "cut" && !markResent(c)) throw unknown(peer);
    if (!isWhole || performance.now() > deadline) throw unreachable(peer);
  }
}

async function locate(nodes: Nodes, sessions: readonly string[]): Promise<Peer | undefined> {
  for (const session of sessions) {
    const peer = await nodes.locate(session);
    if (peer) return peer;
  }
  return undefined;
}

async function ask(
  c: Context<AppEnv>,
  { nodes, peer, body }: { nodes: Nodes; peer: Peer; body: Buffer | undefined },
): Promise<Outcome> {
  // A request is forwarded once: two nodes that disagree about an owner must not send it back and forth.
  if (c.get("isForwarded")) return misdirected();
  const { url } = peer;
  return url === undefined ? "refused" : forward(c, { nodes, peer: { ...peer, url }, body });
}

/** Another node may have taken the session between the look and the claim; a node that shuts down has no sessions. */
async function tryHere(c: Context<AppEnv>, serve: () => Promise<Response>): Promise<Outcome> {
  try {
    return await serve();
  } catch (error) {
    const isDraining = error instanceof SluiceError && error.code === "draining";
    if (c.get("isForwarded") && (isDraining || isHeldElsewhere(error))) return misdirected();
    if (isHeldElsewhere(error)) return "moved";
    throw error;
  }
}

function misdirected(): Response {
  return new Response(null, { status: 421, headers: { [MISDIRECTED_HEADER]: "1" } });
}

// The class of Node's own responses may differ from the global one.
function isSent(outcome: unknown): outcome is Response {
  return typeof outcome === "object" && outcome !== null;
}

function hasBody(c: Context<AppEnv>): boolean {
  return c.req.header("content-length") !== undefined || c.req.header("transfer-encoding") !== undefined;
}

/** Whether a request may be sent again although it may have been carried out: the second time changes nothing. */
function markResent(c: Context<AppEnv>): boolean {
  if (["GET", "HEAD", "PUT"].includes(c.req.method)) return true;
  if (c.req.header("idempotency-key") !== undefined) return true;
  const prefix = c.get("dialect")?.prefix;
  // The SDK of this dialect marks a resend by this header, and sends no key.
  if (prefix === "/anthropic") c.req.raw.headers.set("x-stainless-retry-count", "1");
  // A run of AG-UI has its own id.
  return prefix === "/anthropic" || (prefix === "/ag-ui" && c.req.method === "POST");
}

function unreachable(peer: Peer | undefined): SluiceError {
  const who = peer
    ? `The node ${peer.name}, which has the session, does not answer`
    : "The session is changing its node";
  return new SluiceError("storage_unavailable", `${who}. Nothing was done: try again in a few seconds.`);
}

function unknown(peer: Peer | undefined): SluiceError {
  const detail = `The node ${peer?.name ?? "of the session"} broke off before it answered, and the request may have been carried out. Read the session's events before you repeat it; with an Idempotency-Key it can be repeated safely.`;
  return new SluiceError("stream_error", detail, {}, { retryable: false });
}

function toNaming(
  c: Context<AppEnv>,
  { catalog }: Pick<OwnedRoute, "catalog">,
  body: Buffer | undefined,
): NamingRequest {
  return {
    c,
    catalog,
    tenant: c.get("tenant"),
    param: (name) => c.req.param(name) ?? "",
    query: (name) => c.req.query(name),
    body: async () => parseObject(body),
  };
}

/** A body that is not valid is reported by the route itself. */
function parseObject(body: Buffer | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body?.toString() ?? "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Accepts the requests that other nodes have forwarded, with the rights that those have found. */
export function acceptForwarded(nodes: Nodes | undefined): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const header = nodes && c.req.header(FORWARD_HEADER);
    if (!nodes || header === undefined) return next();
    const { pathname, search } = new URL(c.req.url);
    const claims = verify(header, { method: c.req.method, path: `${pathname}${search}` }, nodes);
    if (!claims)
      throw new SluiceError("permission_denied", "Only a node of this database forwards requests here.");
    if (claims.to !== nodes.life) return misdirected();
    c.set("isForwarded", true);
    c.set("access", claims.access);
    c.set("tenant", claims.access.tenant);
    await next();
    c.res.headers.set(NODE_HEADER, nodes.life);
  };
}

/** Runs a check on requests of clients. That of a forwarded one was made by the node that has forwarded it. */
export function unlessForwarded(check: MiddlewareHandler<AppEnv>): MiddlewareHandler<AppEnv> {
  return (c, next) => (c.get("isForwarded") ? next() : check(c, next));
}
