import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Catalog } from "../../catalog/port.ts";
import type { McpServer, SessionSpec } from "../../contract/index.ts";
import { type Bearer, findBearer } from "./bearers.ts";
import type { McpVerdict } from "../../sessions/index.ts";
import { listenOnLoopback, type LoopbackListener } from "./loopback-listener.ts";
import { fetcherOf } from "./reach.ts";
import { findOwned } from "./session-owner.ts";
import { createShelves, type Shelves } from "./shelves.ts";
import { readSigningKey } from "./signing-key.ts";

export interface McpRelayOptions {
  readonly catalog: Catalog;
  /** Where its port is remembered: agents outlive the server. */
  readonly folder: string;
}

export interface McpRelay {
  /** The session's MCP servers behind the relay, also those that no vault opens yet. */
  equip(session: string, spec: SessionSpec): Promise<SessionSpec>;
  /** How it ended when the session last asked one of its servers; undefined where it let it in. */
  verdict(session: string, server: string): McpVerdict | undefined;
  close(): Promise<void>;
}

const PORT_FILE = "mcp-relay.port";
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/**
 * The way from an agent to the MCP servers that a vault opens: the credential is added on this side, request by request,
 * so that no sandbox ever has it and a changed one holds at once. What the agent has opens this way and nothing else.
 */
export function createMcpRelay(options: McpRelayOptions): McpRelay {
  const { catalog, folder } = options;
  const shelves = createShelves(catalog);
  const verdicts = new Map<string, McpVerdict>();
  let started: Promise<{ listener: LoopbackListener; key: string }> | undefined;

  const start = async (): Promise<{ listener: LoopbackListener; key: string }> => {
    const key = await readSigningKey(catalog, "mcp");
    const listener = await listenOnLoopback(join(folder, PORT_FILE), (request, response) => {
      relay({ shelves, catalog, key, verdicts }, request, response).catch(() => {
        if (!response.headersSent) response.writeHead(502);
        response.end();
      });
    });
    return { listener, key };
  };

  return {
    async equip(session, spec) {
      const record = await findOwned({ catalog, shelves }, session);
      const servers = Object.entries(spec.mcp ?? {});
      if (!record || servers.length === 0) return spec;
      started ??= start();
      const { listener, key } = await started;
      const relayed = servers.map(([name, server]): [string, McpServer] => {
        if (!record.body.agent.mcp_servers.some((known) => known.name === name)) return [name, server];
        const url = `http://127.0.0.1:${listener.port}/${encodeURIComponent(session)}/${encodeURIComponent(name)}`;
        const headers = { Authorization: `Bearer ${tokenOf(key, session, name)}` };
        return [name, { type: "http", url, headers }];
      });
      return { ...spec, mcp: Object.fromEntries(relayed) };
    },
    verdict: (session, server) => verdicts.get(`${session}\n${server}`),
    async close() {
      await (await started?.catch(() => undefined))?.listener.close();
    },
  };
}

interface Relay {
  readonly shelves: Shelves;
  readonly catalog: Catalog;
  readonly key: string;
  readonly verdicts: Map<string, McpVerdict>;
}

async function relay(
  { shelves, catalog, key, verdicts }: Relay,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [, session = "", name = ""] = (request.url ?? "").split("/").map(decodeURIComponent);
  const [, given = ""] = /^Bearer ([0-9a-f]+)$/.exec(request.headers.authorization ?? "") ?? [];
  if (!isSame(given, tokenOf(key, session, name))) return void response.writeHead(401).end();
  const record = await findOwned({ catalog, shelves }, session);
  const server = record?.body.agent.mcp_servers.find((known) => known.name === name);
  if (!record || !server) return void response.writeHead(404).end();
  // Redirects are not followed and only this one address is asked: the credential goes nowhere else.
  const bearer = await findBearer({ shelves, catalog }, record.owner, {
    vaults: record.body.vault_ids,
    url: server.url,
  });
  const abort = new AbortController();
  response.once("close", () => abort.abort());
  const body = await readBody(request);
  if (!body) return void response.writeHead(413).end();
  const ask = (token: string | undefined): Promise<Response> =>
    fetcherOf(record.owner)(server.url, {
      method: request.method ?? "GET",
      headers: toHeaders(request, token),
      redirect: "manual",
      signal: abort.signal,
      ...(body.length > 0 && { body }),
    });
  const place = `${session}\n${name}`;
  const answer = await askTwice(ask, bearer).catch((error: unknown) => {
    if (!abort.signal.aborted) verdicts.set(place, "unreachable");
    throw error;
  });
  if (answer.status === 401) verdicts.set(place, "refused");
  else verdicts.delete(place);
  const headers = [...answer.headers].filter(([name]) => !NOT_PASSED.has(name));
  response.writeHead(answer.status, Object.fromEntries(headers));
  response.flushHeaders();
  if (!answer.body) return void response.end();
  await pipeline(Readable.fromWeb(answer.body as never), response);
}

/** A token may be refused before its time; then the one that takes its place is tried. */
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

/** All of it, as it may have to be sent twice; undefined where that is too much. */
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

/** What belongs to one connection, or to the agent's side alone. */
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
