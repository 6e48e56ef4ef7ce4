import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Catalog } from "../../../catalog/port.ts";
import type { McpServer, SessionSpec } from "../../../contract/index.ts";
import type { CredentialBody } from "../../../dialects/anthropic/resources/vault.ts";
import type { McpVerdict } from "../../../sessions/index.ts";
import { readChunks } from "../../body/read.ts";
import { type Collections, createCollections, findTenantSession } from "../collections.ts";
import { fetcherOf } from "../tenant-network.ts";
import { openCredential, refreshCredential } from "./credential-secrets.ts";
import { createLoopback } from "./loopback.ts";

export interface McpRelayOptions {
  readonly catalog: Catalog;
  /** Holds the file of the port number, which stays the same: agents outlive the server. */
  readonly folder: string;
  /** The most verdicts in memory; the oldest is forgotten first. */
  readonly mostVerdicts?: number;
}

export interface McpRelay {
  /** Replaces the addresses of the session's MCP servers by the relay's, even those without a credential yet. */
  equip(session: string, spec: SessionSpec): Promise<SessionSpec>;
  /** The outcome of the last request to a server of the session; undefined after a success. */
  verdict(session: string, server: string): McpVerdict | undefined;
  close(): Promise<void>;
}

const MOST_VERDICTS = 10_000;
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/**
 * Relays the requests of agents to the MCP servers of their vaults, and adds the credential to each request. So no
 * sandbox ever holds a credential, and a changed one applies at once. The agent's own token is valid only for the relay.
 */
export function createMcpRelay(options: McpRelayOptions): McpRelay {
  const { catalog, folder } = options;
  const collections = createCollections(catalog);
  const verdicts = new Verdicts(options.mostVerdicts ?? MOST_VERDICTS);
  const { start, close } = createLoopback(
    { catalog, purpose: "mcp", portFile: join(folder, "mcp-relay.port"), failureStatus: 502 },
    (key, request, response) => relay({ collections, catalog, key, verdicts }, request, response),
  );

  return {
    async equip(session, spec) {
      const record = await findTenantSession({ catalog, collections }, session);
      const servers = Object.entries(spec.mcp ?? {});
      if (!record || servers.length === 0) return spec;
      const { port, key } = await start();
      const relayed = servers.map(([name, server]): [string, McpServer] => {
        if (!record.body.agent.mcp_servers.some((known) => known.name === name)) return [name, server];
        // A new process of the agent connects anew.
        verdicts.set(session, name, undefined);
        const url = `http://127.0.0.1:${port}/${encodeURIComponent(session)}/${encodeURIComponent(name)}`;
        const headers = { Authorization: `Bearer ${tokenOf(key, session, name)}` };
        return [name, { type: "http", url, headers }];
      });
      return { ...spec, mcp: Object.fromEntries(relayed) };
    },
    verdict: (session, server) => verdicts.get(session, server),
    close,
  };
}

/** The failures of the last requests, the oldest first. */
class Verdicts {
  readonly #most: number;
  readonly #failures = new Map<string, McpVerdict>();

  constructor(most: number) {
    this.#most = most;
  }

  get(session: string, server: string): McpVerdict | undefined {
    return this.#failures.get(`${session}\n${server}`);
  }

  set(session: string, server: string, verdict: McpVerdict | undefined): void {
    const key = `${session}\n${server}`;
    this.#failures.delete(key);
    if (verdict !== undefined) this.#failures.set(key, verdict);
    const [oldest] = this.#failures.size > this.#most ? this.#failures.keys() : [];
    if (oldest !== undefined) this.#failures.delete(oldest);
  }
}

interface Relay {
  readonly collections: Collections;
  readonly catalog: Catalog;
  readonly key: string;
  readonly verdicts: Verdicts;
}

async function relay(
  { collections, catalog, key, verdicts }: Relay,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [, session = "", name = ""] = (request.url ?? "").split("/").map(decodeURIComponent);
  const [, given = ""] = /^Bearer ([0-9a-f]+)$/.exec(request.headers.authorization ?? "") ?? [];
  if (!isSame(given, tokenOf(key, session, name))) return void response.writeHead(401).end();
  const record = await findTenantSession({ catalog, collections }, session);
  const server = record?.body.agent.mcp_servers.find((known) => known.name === name);
  if (!record || !server) return void response.writeHead(404).end();
  const bearer = await findBearer({ collections, catalog }, record.tenant, {
    vaults: record.body.vault_ids,
    url: server.url,
  });
  const abort = new AbortController();
  response.once("close", () => abort.abort());
  const body = await readBody(request);
  if (!body) return void response.writeHead(413).end();
  const ask = (token: string | undefined): Promise<Response> =>
    fetcherOf(record.tenant)(server.url, {
      method: request.method ?? "GET",
      headers: toHeaders(request, token),
      // Redirects are not followed, so that the credential reaches only this address.
      redirect: "manual",
      signal: abort.signal,
      ...(body.length > 0 && { body }),
    });
  const answer = await askTwice(ask, bearer).catch((error: unknown) => {
    if (!abort.signal.aborted) verdicts.set(session, name, "unreachable");
    throw error;
  });
  verdicts.set(session, name, answer.status === 401 ? "refused" : undefined);
  const headers = [...answer.headers].filter(([name]) => !NOT_PASSED.has(name));
  response.writeHead(answer.status, Object.fromEntries(headers));
  response.flushHeaders();
  if (!answer.body) return void response.end();
  await pipeline(readChunks(answer.body), response);
}

/** A server may refuse a token before its expiry; then a renewed one is tried. */
async function askTwice(
  ask: (token: string | undefined) => Promise<Response>,
  bearer: Bearer | undefined,
): Promise<Response> {
  const first = await ask(bearer?.token);
  const renewed = first.status === 401 ? await bearer?.renew() : undefined;
  if (renewed === undefined || renewed === bearer?.token) return first;
  await first.body?.cancel();
  return ask(renewed);
}

/** The whole body, as it may be sent twice; undefined if it is too large. */
async function readBody(request: IncomingMessage): Promise<Buffer<ArrayBuffer> | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_BODY_BYTES) return undefined;
  }
  return Buffer.concat(chunks);
}

/** Headers of one connection, or of the agent's side only. */
const NOT_PASSED: ReadonlySet<string> = new Set([
  "authorization",
  "connection",
  "content-encoding",
  "content-length",
  "host",
  "keep-alive",
  "set-cookie",
  "transfer-encoding",
]);

function toHeaders({ headers }: IncomingMessage, bearer: string | undefined): Headers {
  const passed = new Headers();
  for (const [name, value] of Object.entries(headers))
    if (!NOT_PASSED.has(name) && typeof value === "string") passed.set(name, value);
  if (bearer !== undefined) passed.set("authorization", `Bearer ${bearer}`);
  return passed;
}

function tokenOf(key: string, session: string, name: string): string {
  return createHmac("sha256", key).update(`${session}\n${name}`).digest("hex");
}

function isSame(given: string, expected: string): boolean {
  return given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected));
}

interface Vaults {
  readonly catalog: Catalog;
  readonly collections: Collections;
}

/** The credential of an MCP server. */
interface Bearer {
  readonly token: string;
  /** The next token, after this one was refused; undefined if there is none. */
  renew(): Promise<string | undefined>;
}

/** How long before its expiry a token is renewed: it could expire on the way. */
const EARLY_MS = 30_000;

/** The token of the first credential for the server's URL in these vaults, renewed if it has expired. */
async function findBearer(
  vaults: Vaults,
  tenant: string,
  { vaults: ids, url }: { vaults: readonly string[]; url: string },
): Promise<Bearer | undefined> {
  for (const parent of ids) {
    for (const { id, body } of await vaults.collections.credentials.list(tenant, { parent, limit: 100 })) {
      const { auth } = body;
      if (auth.type === "environment_variable" || !isSameServer(auth.mcp_server_url, url)) continue;
      const secrets = await openCredential(vaults.catalog, tenant, id);
      const token = auth.type === "static_bearer" ? secrets.token : secrets.access_token;
      if (token === undefined) continue;
      const renew = async (): Promise<string | undefined> =>
        auth.type === "mcp_oauth" ? (await refreshCredential(vaults, tenant, id, token)).token : undefined;
      // Without a new token the old one is tried: the server may still accept it.
      return { token: (isExpired(auth) ? await renew() : undefined) ?? token, renew };
    }
  }
  return undefined;
}

function isExpired(auth: CredentialBody["auth"]): boolean {
  if (auth.type !== "mcp_oauth" || auth.expires_at === null) return false;
  return Date.parse(auth.expires_at) <= Date.now() + EARLY_MS;
}

function isSameServer(one: string, other: string): boolean {
  return toPlain(one) === toPlain(other);
}

function toPlain(url: string): string {
  return new URL(url).href.replace(/\/+$/, "");
}
