import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Catalog } from "../../catalog/port.ts";
import type { McpServer, SessionSpec } from "../../contract/index.ts";
import { DEFAULT_OWNER } from "../auth.ts";
import { findBearer } from "./bearers.ts";
import { createShelves, type Shelves } from "./shelves.ts";
import { readSigningKey } from "./signing-key.ts";

export interface McpRelayOptions {
  readonly catalog: Catalog;
  /** Where its port is remembered: agents outlive the server. */
  readonly folder: string;
  /** Whose sessions there may be. */
  readonly owners?: readonly string[];
}

export interface McpRelay {
  /** The session's MCP servers behind the relay, also those that no vault opens yet. */
  equip(session: string, spec: SessionSpec): Promise<SessionSpec>;
  close(): Promise<void>;
}

const PORT_FILE = "mcp-relay.port";

/**
 * The way from an agent to the MCP servers that a vault opens: the credential is added on this side, request by request,
 * so that no sandbox ever has it and a changed one holds at once. What the agent has opens this way and nothing else.
 */
export function createMcpRelay(options: McpRelayOptions): McpRelay {
  const { catalog, folder, owners = [DEFAULT_OWNER] } = options;
  const shelves = createShelves(catalog);
  let started: Promise<{ server: Server; port: number; key: string }> | undefined;

  const start = async (): Promise<{ server: Server; port: number; key: string }> => {
    const key = await readSigningKey(catalog, "mcp");
    const server = createServer((request, response) => {
      relay({ shelves, catalog, owners, key }, request, response).catch(() => {
        if (!response.headersSent) response.writeHead(502);
        response.end();
      });
    });
    const port = await listen(server, join(folder, PORT_FILE));
    return { server, port, key };
  };

  return {
    async equip(session, spec) {
      const record = await findSession(shelves, owners, session);
      const servers = Object.entries(spec.mcp ?? {});
      if (!record || servers.length === 0) return spec;
      started ??= start();
      const { port, key } = await started;
      const relayed = servers.map(([name, server]): [string, McpServer] => {
        if (!record.body.agent.mcp_servers.some((known) => known.name === name)) return [name, server];
        const url = `http://127.0.0.1:${port}/${encodeURIComponent(session)}/${encodeURIComponent(name)}`;
        const headers = { Authorization: `Bearer ${tokenOf(key, session, name)}` };
        return [name, { type: "http", url, headers }];
      });
      return { ...spec, mcp: Object.fromEntries(relayed) };
    },
    async close() {
      const running = await started?.catch(() => undefined);
      if (!running) return;
      running.server.closeAllConnections();
      running.server.close();
      await once(running.server, "close");
    },
  };
}

interface Relay {
  readonly shelves: Shelves;
  readonly catalog: Catalog;
  readonly owners: readonly string[];
  readonly key: string;
}

async function relay(
  { shelves, catalog, owners, key }: Relay,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [, session = "", name = ""] = (request.url ?? "").split("/").map(decodeURIComponent);
  const [, given = ""] = /^Bearer ([0-9a-f]+)$/.exec(request.headers.authorization ?? "") ?? [];
  if (!isSame(given, tokenOf(key, session, name))) return void response.writeHead(401).end();
  const record = await findSession(shelves, owners, session);
  const server = record?.body.agent.mcp_servers.find((known) => known.name === name);
  if (!record || !server) return void response.writeHead(404).end();
  // Redirects are not followed and only this one address is asked: the credential goes nowhere else.
  const bearer = await findBearer({ shelves, catalog }, record.owner, {
    vaults: record.body.vault_ids,
    url: server.url,
  });
  const abort = new AbortController();
  response.once("close", () => abort.abort());
  const hasBody = request.method !== "GET" && request.method !== "HEAD";
  const answer = await fetch(server.url, {
    method: request.method ?? "GET",
    headers: toHeaders(request, bearer),
    redirect: "manual",
    signal: abort.signal,
    ...(hasBody && { body: Readable.toWeb(request) as ReadableStream, duplex: "half" }),
  } as RequestInit);
  const headers = [...answer.headers].filter(([name]) => !NOT_PASSED.has(name));
  response.writeHead(answer.status, Object.fromEntries(headers));
  response.flushHeaders();
  if (!answer.body) return void response.end();
  await pipeline(Readable.fromWeb(answer.body as never), response);
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

async function findSession(shelves: Shelves, owners: readonly string[], session: string) {
  for (const owner of owners) {
    const found = await shelves.sessions.find(owner, session);
    if (found) return { owner, body: found.body };
  }
  return undefined;
}

function tokenOf(key: string, session: string, name: string): string {
  return createHmac("sha256", key).update(`${session}\n${name}`).digest("hex");
}

function isSame(given: string, expected: string): boolean {
  return given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected));
}

/** The port of the life before, where it is free: what runs still asks there. */
async function listen(server: Server, file: string): Promise<number> {
  const before = Number(await readFile(file, "utf8").catch(() => "0"));
  const tries = Number.isInteger(before) && before > 0 && before < 65_536 ? [before, 0] : [0];
  for (const port of tries) {
    server.listen(port, "127.0.0.1");
    const isListening = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isListening) continue;
    const bound = (server.address() as AddressInfo).port;
    await mkdir(join(file, ".."), { recursive: true });
    await writeFile(file, String(bound), { mode: 0o600 });
    return bound;
  }
  throw new Error("the MCP relay found no port to listen on");
}
