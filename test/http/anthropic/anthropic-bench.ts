import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { type Catalog, createCatalog } from "../../../src/catalog/index.ts";
import { type AppOptions, createCredentialBroker, createMcpRelay } from "../../../src/http/index.ts";
import { type AppBench, openApp } from "../app-bench.ts";

export const KEY = "sk-test-correct-horse";
export const BETA = "managed-agents-2026-04-01";

export interface AnthropicBench extends AppBench {
  readonly catalog: Catalog;
  /** Of the catalog. */
  readonly folder: string;
  /** The official SDK, unmodified. */
  readonly client: Anthropic;
  readonly beta: Anthropic["beta"];
  clientOf(key: string): Anthropic;
  /** Sends events to a session, valid or not. */
  send(session: string, ...events: object[]): ReturnType<Anthropic["beta"]["sessions"]["events"]["send"]>;
  /** How many requests the clients have made. */
  readonly requests: () => number;
  /** Below `/anthropic/v1`, with the key and the beta header unless told otherwise. */
  raw(
    method: string,
    path: string,
    options?: { body?: BodyInit; headers?: Record<string, string> },
  ): Promise<Response>;
}

/** The real app over a real catalog on a real port, and the official client in front of it. */
export async function openAnthropic(options: Partial<AppOptions> = {}): Promise<AnthropicBench> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-anthropic-"));
  const catalog = createCatalog({ folder });
  const relay = createMcpRelay({ catalog, folder });
  const broker = createCredentialBroker({ catalog, folder });
  const bench = await openApp(
    { token: KEY, catalog, ...options },
    { equip: relay.equip, mcpVerdict: relay.verdict, lend: broker.lend },
  );
  let requests = 0;
  const clientOf = (apiKey: string): Anthropic =>
    new Anthropic({
      apiKey,
      baseURL: `${bench.url}/anthropic`,
      maxRetries: 2,
      fetch: (input, init) => {
        requests += 1;
        return fetch(input, init);
      },
    });
  const client = clientOf(KEY);
  return {
    ...bench,
    catalog,
    folder,
    client,
    beta: client.beta,
    clientOf,
    send: (session, ...events) => client.beta.sessions.events.send(session, { events: events as never }),
    requests: () => requests,
    raw: (method, path, { body, headers } = {}) =>
      fetch(`${bench.url}/anthropic/v1${path}`, {
        method,
        headers: headers ?? { authorization: `Bearer ${KEY}`, "anthropic-beta": BETA },
        ...(body !== undefined && { body }),
      }),
    async close() {
      await bench.close();
      await relay.close();
      await broker.close();
      await catalog.close();
      await rm(folder, { recursive: true });
    },
  };
}

/** The error of a failed call, and the count of its requests. */
export async function failureOf(
  bench: AnthropicBench,
  call: () => PromiseLike<unknown>,
): Promise<{ error: APIError; requests: number }> {
  const before = bench.requests();
  try {
    await call();
  } catch (error) {
    if (error instanceof APIError) return { error, requests: bench.requests() - before };
    throw error;
  }
  throw new Error("The call did not fail.");
}

export interface EnvelopeBody {
  readonly type: "error";
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details?: { error_code: string };
  };
  readonly request_id: string;
}

/** The checked envelope of an error response. */
export async function envelopeOf(response: Response): Promise<EnvelopeBody> {
  const kind = response.headers.get("content-type");
  if (!kind?.startsWith("application/json")) throw new Error(`${response.status} with ${kind}`);
  const body = (await response.json()) as EnvelopeBody;
  const isFit = body.type === "error" && body.error.type !== "" && body.error.message !== "";
  if (!isFit || body.request_id !== response.headers.get("request-id")) throw new Error(JSON.stringify(body));
  return body;
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
