import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request, type IncomingMessage, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defined } from "../../src/contract/own-keys.ts";
import type { ModelRoute } from "../../src/contract/process.ts";
import {
  Desk,
  type DeskAnswer,
  type DeskBudget,
  type GatewayRules,
  isProof,
  encrypt,
} from "../../src/gateway/desk.ts";
import type { Answerer } from "../../src/gateway/forward.ts";
import { Ledger } from "../../src/gateway/limits/ledger.ts";
import { createGateway } from "../../src/gateway/listener.ts";
import { loadPricing } from "../../src/gateway/pricing.ts";
import { createProvider } from "../../src/gateway/model-provider.ts";
import { RateLimiter, type RateOptions } from "../../src/gateway/limits/rates.ts";
import { createRuled } from "../../src/gateway/model-rules.ts";
import { type GatewayRecord, openRecords, parseRecord } from "../../src/gateway/record.ts";

export const KEY = "sk-canary-4f1d9c7be2a85630";

export interface Lab {
  readonly url: string;
  readonly port: number;
  readonly token: string;
  /** Where the gateway asks for its keys. */
  readonly deskUrl: string;
  readonly desk: {
    keys: Record<string, string>;
    isDown: boolean;
    budget?: DeskBudget;
    rules?: GatewayRules;
    workspace?: NonNullable<DeskAnswer["workspace"]>;
  };
  records(): GatewayRecord[];
  /** The file of records as it is. */
  text(): string;
  close(): Promise<void>;
}

/** A gateway with a desk of its own, in front of an upstream. */
export async function openLab(
  upstream: string,
  options: {
    answerer?: Answerer;
    requestMs?: number;
    maxConnections?: number;
    clock?: RateOptions["clock"];
    /** A file of records that outlives the lab. */
    records?: string;
    mostRecords?: number;
    mostBytes?: number;
  } = {},
): Promise<Lab> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-lab-"));
  const file = options.records ?? join(folder, "records");
  // Each session has its own.
  const deskToken = randomBytes(16).toString("hex");
  const desk: Lab["desk"] = { keys: { up: KEY }, isDown: false };
  const deskServer = await listen(
    createServer((incoming, outgoing) => {
      const nonce = String(incoming.headers["sluice-nonce"]);
      const given = (incoming.headers.authorization ?? "").replace("Bearer ", "");
      if (desk.isDown) return void outgoing.destroy();
      if (!isProof(given, deskToken, nonce)) return void outgoing.writeHead(401).end();
      const { isDown: _, ...answer } = desk;
      outgoing.end(encrypt(answer, deskToken, nonce));
    }),
  );
  const deskUrl = `http://127.0.0.1:${portOf(deskServer)}/`;
  const client = new Desk({ url: deskUrl, token: deskToken });
  const route: ModelRoute = { id: "up", upstream, provider: "test", auth: { header: "x-api-key" } };
  const { mostRecords: mostBytes } = options;
  const records = openRecords(file, mostBytes === undefined ? {} : { mostBytes });
  const hosts: string[] = [];
  const gateway = createGateway({
    routes: [route],
    token: client.token,
    answerer:
      options.answerer ??
      createRuled(
        createProvider({
          desk: client,
          dial: async (host, port) => {
            const socket = connect({ host, port, noDelay: true });
            await once(socket, "connect");
            return socket;
          },
        }),
        { desk: client, records },
      ),
    records,
    ledger: new Ledger({ desk: client, records, loadPricing }),
    rates: new RateLimiter({ desk: client, records, ...(options.clock && { clock: options.clock }) }),
    hosts,
    ...defined({
      requestMs: options.requestMs,
      mostBytes: options.mostBytes,
      maxConnections: options.maxConnections,
    }),
  });
  await listen(gateway);
  const port = portOf(gateway);
  hosts.push(`127.0.0.1:${port}`);
  return {
    url: `http://127.0.0.1:${port}/up`,
    port,
    token: client.token,
    deskUrl,
    desk,
    records: () =>
      readFileSync(file, "utf8")
        .split("\n")
        .flatMap((line) => parseRecord(line) ?? []),
    text: () => readFileSync(file, "utf8"),
    async close() {
      for (const server of [gateway, deskServer]) {
        server.closeAllConnections();
        server.close();
      }
      records.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function listen<T extends Server>(server: T): Promise<T> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

export interface Got {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly chunks: Buffer[];
  readonly body: string;
  readonly isCut: boolean;
}

/** Sends a request and reads its answer in the chunks in which it comes. */
export function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: options.method ?? "POST", headers: options.headers ?? {} });
    outgoing.on("error", reject);
    outgoing.on("response", (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", () => {});
      answer.on("close", () =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          chunks,
          body: Buffer.concat(chunks).toString("utf8"),
          isCut: !answer.complete,
        }),
      );
    });
    outgoing.end(options.body);
  });
}
