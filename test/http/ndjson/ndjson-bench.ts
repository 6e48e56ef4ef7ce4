import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Catalog, createCatalog } from "../../../src/catalog/index.ts";
import { type AssistantSandboxNDJSONLine, parseLine } from "../../../src/dialects/ndjson/index.ts";
import type { AppOptions } from "../../../src/http/index.ts";
import type { EngineOptions } from "../../../src/sessions/index.ts";
import { script, waitFor } from "../../support/engine.ts";
import { type AppBench, openApp } from "../app-bench.ts";

export interface NdjsonBench extends AppBench {
  readonly catalog: Catalog;
  /** Of the catalog. */
  readonly folder: string;
  post(path: string, json: unknown, init?: RequestInit): Promise<Response>;
  /** Runs a script and gives its lines. */
  run(conversation: string | undefined, ...steps: unknown[]): Promise<Run>;
  /** Starts a script for a browser. */
  chat(conversation: string, ...steps: unknown[]): Promise<Chat>;
  /** Waits until a turn has ended. */
  ended(conversation: string, turn: string): Promise<void>;
}

export interface Run {
  readonly response: Response;
  readonly text: string;
  readonly lines: readonly AssistantSandboxNDJSONLine[];
  readonly conversation: string;
  readonly turn: string;
  readonly otp: string;
}

export interface Chat {
  readonly conversation: string;
  readonly turn: string;
  readonly stream: string;
  readonly upload: { readonly password: string; readonly expiresAt: number };
}

/** The real app over a real catalog on a real port. */
export async function openNdjson(
  options: Partial<AppOptions> = {},
  engine: Partial<EngineOptions> = {},
): Promise<NdjsonBench> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-ndjson-"));
  const catalog = createCatalog({ folder });
  const bench = await openApp({ catalog, ...options }, engine);
  const token = options.token ? { authorization: `Bearer ${options.token}` } : {};
  const post = (path: string, json: unknown, init: RequestInit = {}): Promise<Response> =>
    fetch(`${bench.url}/ndjson${path}`, {
      method: "POST",
      body: JSON.stringify(json),
      ...init,
      headers: { "content-type": "application/json", ...token, ...(init.headers as Record<string, string>) },
    });
  return {
    ...bench,
    catalog,
    folder,
    post,
    async run(conversation, ...steps) {
      const prompt = script(...steps);
      return readRun(await post("/stream", { prompt, ...(conversation && { conversation }) }));
    },
    async chat(conversation, ...steps) {
      const response = await post("/chat", { conversation, prompt: script(...steps) });
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
      return (await response.json()) as Chat;
    },
    async ended(conversation, turn) {
      const where = (event: { data: { turn_id: string } }): boolean => event.data.turn_id === turn;
      await waitFor(bench.test.log, conversation, "turn.ended", { where });
    },
    async close() {
      await bench.close();
      await catalog.close();
      await rm(folder, { recursive: true });
    },
  };
}

export async function readRun(response: Response): Promise<Run> {
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
  const header = (name: string): string => response.headers.get(name) ?? "";
  return {
    response,
    text,
    lines: text.split("\n").slice(0, -1).map(parseLine),
    conversation: header("sluice-conversation"),
    turn: header("sluice-turn-id"),
    otp: header("sluice-upload-otp"),
  };
}

export interface Message {
  readonly role: string;
  readonly content: string;
  readonly turn?: string;
}

export async function messagesOf(bench: NdjsonBench, conversation: string): Promise<Message[]> {
  const response = await bench.call("GET", `/ndjson/conversations/${conversation}?limit=1000`);
  return ((await response.json()) as { messages: Message[] }).messages;
}
