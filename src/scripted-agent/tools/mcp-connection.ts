import { spawn } from "node:child_process";
import { LineSplitter } from "../../text/line-splitter.ts";
import { orHalted } from "../halt.ts";

/** A connection to an MCP server: JSON-RPC over any transport. */
export interface McpConnection {
  request(method: string, params: unknown, options: { signal: AbortSignal }): Promise<unknown>;
  notify(method: string, params?: unknown): Promise<void>;
  close(): void;
  /** Resolves when the server is gone. */
  readonly ended: Promise<void>;
}

interface RpcMessage {
  jsonrpc?: string;
  id?: string | number | null;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { code: number; message: string };
}

/** A failure of the server itself or of its connection, not of a tool. */
export class McpFailure extends Error {
  readonly server: string;
  readonly unauthorized: boolean;

  constructor(server: string, message: string, options: ErrorOptions & { unauthorized?: boolean } = {}) {
    super(message, options);
    this.server = server;
    this.unauthorized = options.unauthorized ?? false;
  }
}

function toResult(server: string, message: RpcMessage): unknown {
  if (message.error === undefined) return message.result;
  throw new Error(`MCP server "${server}" answered error ${message.error.code}: ${message.error.message}`);
}

/** The answer to a request of the server. This client answers `ping` only. */
function toAnswer(message: RpcMessage): RpcMessage {
  if (message.method === "ping") return { jsonrpc: "2.0", id: message.id ?? null, result: {} };
  const error = { code: -32601, message: `${message.method ?? "that"} is not offered` };
  return { jsonrpc: "2.0", id: message.id ?? null, error };
}

/** Starts an MCP server as a child and speaks with it over its stdin and stdout. */
export function connectStdio(
  server: string,
  start: { command: string; args: readonly string[]; env: Record<string, string> },
): McpConnection {
  const child = spawn(start.command, start.args, {
    env: { ...process.env, ...start.env },
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  const waiting = new Map<number, (message: RpcMessage | McpFailure) => void>();
  let lastId = 0;
  let gone: McpFailure | undefined;

  const send = (message: RpcMessage) => {
    if (gone !== undefined) throw gone;
    child.stdin.write(`${JSON.stringify(message)}\n`);
  };
  const kill = () => killGroup(child.pid);
  const ended = new Promise<void>((resolve) => {
    const end = (failure: McpFailure) => {
      gone ??= failure;
      for (const settle of waiting.values()) settle(gone);
      waiting.clear();
      process.off("exit", kill);
      resolve();
    };
    child.on("error", (error) =>
      end(new McpFailure(server, `MCP server "${server}" did not start: ${error.message}`)),
    );
    child.on("exit", (code, signal) =>
      end(new McpFailure(server, `MCP server "${server}" ended (${signal ?? code})`)),
    );
  });
  process.on("exit", kill);
  child.stdin.on("error", () => {});

  const lines = new LineSplitter((line) => {
    const message = parseMessage(line);
    if (message === undefined) return;
    if (message.method !== undefined) {
      if (message.id !== undefined) send(toAnswer(message));
      return;
    }
    waiting.get(Number(message.id))?.(message);
    waiting.delete(Number(message.id));
  });
  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));

  return {
    ended,
    async request(method, params, { signal }) {
      lastId += 1;
      const id = lastId;
      const answered = new Promise<RpcMessage | McpFailure>((resolve) => waiting.set(id, resolve));
      try {
        send({ jsonrpc: "2.0", id, method, params });
        const answer = await orHalted(signal, answered);
        if (answer instanceof McpFailure) throw answer;
        return toResult(server, answer);
      } catch (error) {
        if (signal.aborted && gone === undefined) {
          send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
        }
        throw error;
      } finally {
        waiting.delete(id);
      }
    },
    async notify(method, params) {
      send({ jsonrpc: "2.0", method, params });
    },
    close: kill,
  };
}

function parseMessage(line: string): RpcMessage | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === "object" && message !== null ? message : undefined;
  } catch {
    // A line that is no JSON, such as a banner, is ignored.
    return undefined;
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}

/** Speaks with an MCP server over streamable HTTP: each message is a POST, each answer JSON or an event stream. */
export function connectHttp(
  server: string,
  endpoint: { url: string; headers: Record<string, string> },
): McpConnection {
  let session: string | undefined;
  let lastId = 0;

  const post = async (message: RpcMessage, signal?: AbortSignal): Promise<Response> => {
    const response = await fetch(endpoint.url, {
      method: "POST",
      headers: {
        ...endpoint.headers,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-06-18",
        ...(session === undefined ? {} : { "mcp-session-id": session }),
      },
      body: JSON.stringify(message),
      ...(signal === undefined ? {} : { signal }),
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw new McpFailure(server, `MCP server "${server}" cannot be reached: ${causeOf(error)}`, {
        cause: error,
      });
    });
    if (!response.ok) {
      await response.body?.cancel();
      const unauthorized = response.status === 401 || response.status === 403;
      throw new McpFailure(server, `MCP server "${server}" answered HTTP ${response.status}`, {
        unauthorized,
      });
    }
    session = response.headers.get("mcp-session-id") ?? session;
    return response;
  };

  return {
    ended: new Promise(() => {}),
    async request(method, params, { signal }) {
      lastId += 1;
      const id = lastId;
      const response = await post({ jsonrpc: "2.0", id, method, params }, signal);
      const streamed = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      const answer = streamed ? await readAnswer(response, id) : ((await response.json()) as RpcMessage);
      if (answer !== undefined) return toResult(server, answer);
      throw new McpFailure(server, `MCP server "${server}" ended its stream without an answer`);
    },
    async notify(method, params) {
      const response = await post({ jsonrpc: "2.0", method, params });
      await response.body?.cancel();
    },
    close() {},
  };
}

/** Reads the answer from an event stream. Other messages are ignored. */
async function readAnswer(response: Response, id: number): Promise<RpcMessage | undefined> {
  let answer: RpcMessage | undefined;
  let data: string[] = [];
  const lines = new LineSplitter((raw) => {
    const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    if (line !== "" || data.length === 0) return;
    const message = JSON.parse(data.join("\n")) as RpcMessage;
    data = [];
    if (message.id === id && message.method === undefined) answer ??= message;
  });
  for await (const chunk of (response.body ?? []) as unknown as AsyncIterable<Uint8Array>) {
    lines.push(Buffer.from(chunk));
    if (answer !== undefined) break;
  }
  return answer;
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
