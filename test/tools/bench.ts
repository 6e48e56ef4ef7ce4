import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { SluiceError } from "../../src/contract/index.ts";
import {
  createToolServer,
  TOKEN_VARIABLE,
  URL_VARIABLE,
  type ToolAccess,
  type ToolAnswer,
  type ToolServer,
  type ToolCall,
  type ToolRun,
  type ToolRuns,
} from "../../src/tools/index.ts";

const PROGRAM = resolve(import.meta.dirname, "../../dist/agents/tools.js");

export const RUN: ToolRun = { session: "s:1", createdAt: 1_700_000_000_000, process: 1 };

export const WEATHER = {
  name: "weather",
  description: "The weather of a city",
  inputSchema: { type: "object", properties: { city: { type: "string" } } },
};

export const LISTED = { ...WEATHER, _meta: { "anthropic/alwaysLoad": true } };

/** An application behind the tool server. It knows one run, records the calls, and answers when the test says so. */
export class Application implements ToolRuns {
  readonly calls = new Map<string, ToolCall>();
  readonly cancelled: string[] = [];
  asked = 0;
  readonly #answers = new Map<string, ToolAnswer>();
  #wake: (() => void)[] = [];

  async list(run: ToolRun): Promise<(typeof WEATHER)[]> {
    this.#demand(run);
    return [WEATHER];
  }

  async call(
    run: ToolRun,
    call: ToolCall,
    { signal }: { signal: AbortSignal },
  ): Promise<ToolAnswer | undefined> {
    this.#demand(run);
    this.asked += 1;
    this.calls.set(call.id, call);
    this.#tell();
    while (!signal.aborted && !this.#answers.has(call.id)) await this.#moved(signal);
    return this.#answers.get(call.id);
  }

  async cancel(run: ToolRun, callId: string): Promise<void> {
    this.#demand(run);
    this.cancelled.push(callId);
    this.#tell();
  }

  answer(id: string, answer: ToolAnswer): void {
    this.#answers.set(id, answer);
    this.#tell();
  }

  /** Waits until this holds for the received messages. */
  async until(holds: () => boolean): Promise<void> {
    const signal = AbortSignal.timeout(20_000);
    while (!holds()) {
      await this.#moved(signal);
      signal.throwIfAborted();
    }
  }

  #demand({ session, process }: ToolRun): void {
    if (session === RUN.session && process === RUN.process) return;
    throw new SluiceError("token_invalid", "this run is over");
  }

  #tell(): void {
    const wake = this.#wake;
    this.#wake = [];
    for (const go of wake) go();
  }

  #moved(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#wake.push(resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

export interface ToolBench {
  readonly folder: string;
  readonly application: Application;
  server: ToolServer;
  /** Another engine on the same folder, as after a restart. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export async function openBench(options: { patienceMs?: number } = {}): Promise<ToolBench> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-tools-"));
  const application = new Application();
  const open = (): ToolServer => createToolServer({ folder, runs: application, ...options });
  const bench: ToolBench = {
    folder,
    application,
    server: open(),
    async restart() {
      await bench.server.close();
      bench.server = open();
      await bench.server.reopen(RUN);
    },
    async close() {
      await bench.server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return bench;
}

export interface RpcMessage {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { code: number; message: string };
}

/** An MCP client that speaks JSON-RPC over the real program's stdin and stdout. */
export interface McpClient {
  readonly heard: RpcMessage[];
  request(method: string, params?: unknown): Promise<RpcMessage>;
  /** Sends and does not wait; answers the request's id. */
  send(method: string, params?: unknown): number;
  notify(method: string, params?: unknown): void;
  answerOf(id: number): Promise<RpcMessage>;
  next(matches: (message: RpcMessage) => boolean): Promise<RpcMessage>;
  end(): Promise<number | null>;
}

export function startProgram(access: ToolAccess | Record<string, string>): McpClient {
  const env = "token" in access && "host" in access ? toVariables(access as ToolAccess) : access;
  const child = spawn(process.execPath, [PROGRAM], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  return speak(child.stdin, child.stdout, async () => {
    const exit = once(child, "exit");
    child.stdin.end();
    const [code] = (await exit) as [number | null];
    return code;
  });
}

export function toVariables(access: ToolAccess): Record<string, string> {
  return { [URL_VARIABLE]: access.url, [TOKEN_VARIABLE]: access.token };
}

export function speak(
  input: NodeJS.WritableStream,
  output: NodeJS.ReadableStream,
  end: () => Promise<number | null>,
): McpClient {
  const heard: RpcMessage[] = [];
  let wake: (() => void)[] = [];
  let lastId = 0;
  createInterface({ input: output }).on("line", (line) => {
    heard.push(JSON.parse(line) as RpcMessage);
    for (const go of wake.splice(0)) go();
  });
  const write = (message: unknown): void => void input.write(`${JSON.stringify(message)}\n`);
  const next: McpClient["next"] = async (matches) => {
    const signal = AbortSignal.timeout(20_000);
    for (;;) {
      const found = heard.find(matches);
      if (found) return found;
      signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        wake.push(resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  };
  const client: McpClient = {
    heard,
    send(method, params) {
      lastId += 1;
      write({ jsonrpc: "2.0", id: lastId, method, params });
      return lastId;
    },
    request: (method, params) => client.answerOf(client.send(method, params)),
    notify: (method, params) => write({ jsonrpc: "2.0", method, params }),
    answerOf: (id) => next((message) => message.id === id && message.method === undefined),
    next,
    end,
  };
  return client;
}
