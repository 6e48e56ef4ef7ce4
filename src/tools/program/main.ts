import { createInterface } from "node:readline";
import { parseObject } from "../content.ts";
import { type Access, ask, callTool, findAccess } from "./calls.ts";

type Id = string | number;

interface Message {
  readonly id?: Id;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

const VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;
const INTERNAL = -32_603;

/** An MCP server that forwards calls to the tool server. */
export class McpServer {
  readonly #access: Access | undefined;
  readonly #send: (message: unknown) => void;
  readonly #running = new Map<Id, AbortController>();

  constructor(access: Access | undefined, send: (message: unknown) => void) {
    this.#access = access;
    this.#send = send;
  }

  /** Takes one line of the client. Ignores a line that is no JSON-RPC message. */
  receive(line: string): void {
    const message = parseObject(line) as Message | undefined;
    if (message?.method === undefined) return;
    if (message.id === undefined) return this.#takeNotification(message);
    void this.#serve(message.id, message.method, message.params ?? {});
  }

  #takeNotification({ method, params }: Message): void {
    if (method === "notifications/cancelled") this.#running.get(params?.["requestId"] as Id)?.abort();
  }

  async #serve(id: Id, method: string, params: Readonly<Record<string, unknown>>): Promise<void> {
    const abort = new AbortController();
    this.#running.set(id, abort);
    try {
      const result = await this.#answer(method, params, abort.signal);
      this.#send({ jsonrpc: "2.0", id, result });
    } catch (error) {
      // A cancelled request gets no answer.
      if (abort.signal.aborted) return;
      const { code = INTERNAL, message } = error as { code?: number; message: string };
      this.#send({ jsonrpc: "2.0", id, error: { code: Number.isInteger(code) ? code : INTERNAL, message } });
    } finally {
      this.#running.delete(id);
    }
  }

  async #answer(
    method: string,
    params: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<unknown> {
    switch (method) {
      case "initialize":
        return toGreeting(params["protocolVersion"]);
      case "ping":
        return {};
      case "tools/list":
        return this.#list(signal);
      case "tools/call":
        return this.#call(params, signal);
      default:
        throw new RpcFailure(METHOD_NOT_FOUND, `there is no method ${method}`);
    }
  }

  async #list(signal: AbortSignal): Promise<unknown> {
    if (!this.#access) return { tools: [] };
    const { status, body } = await ask(this.#access, "GET", "tools", { signal });
    return { tools: status === 200 ? body["tools"] : [] };
  }

  #call(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<unknown> {
    const { name, arguments: input = {} } = params;
    if (typeof name !== "string") throw new RpcFailure(INVALID_PARAMS, "a call names its tool");
    if (!this.#access) throw new RpcFailure(INTERNAL, "this run was given no application's tools");
    const { progressToken } = (params["_meta"] ?? {}) as { progressToken?: unknown };
    const progress = (count: number): void => {
      if (progressToken === undefined) return;
      const report = { progressToken, progress: count };
      this.#send({ jsonrpc: "2.0", method: "notifications/progress", params: report });
    };
    return callTool(this.#access, { name, input }, { signal, progress });
  }
}

class RpcFailure extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The answer to `initialize`: the client's version of the protocol if it is known, else 2025-06-18. */
function toGreeting(version: unknown): unknown {
  return {
    protocolVersion: VERSIONS.includes(version as string) ? version : VERSIONS[1],
    capabilities: { tools: {} },
    serverInfo: { name: "sluice", version: "1" },
  };
}

/** The application's tools as an MCP server on stdio, for any agent. */
const server = new McpServer(findAccess(process.env, process.ppid), (message) => {
  process.stdout.write(`${JSON.stringify(message)}\n`);
});

process.stdout.on("error", () => process.exit(0));
// The agent has ended. Its open calls are cancelled with the turn, so nothing is left to do here.
createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on("line", (line) => server.receive(line))
  .on("close", () => process.exit(0));
