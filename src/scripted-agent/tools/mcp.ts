import { readFileSync } from "node:fs";
import { orHalted } from "../halt.ts";
import { connectHttp, connectStdio, type McpConnection, McpFailure } from "./mcp-connection.ts";

interface ServerEntry {
  type?: string;
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  url?: string;
  headers?: Record<string, string>;
}

/** The MCP servers of the configuration file. A server is connected at its first call. */
export class McpServers {
  readonly #entries: Map<string, ServerEntry>;
  readonly #connections = new Map<string, Promise<McpConnection>>();

  constructor(configFile: string | undefined) {
    this.#entries = new Map(Object.entries(configFile === undefined ? {} : readConfig(configFile)));
  }

  async call(
    server: string,
    tool: string,
    options: { input: unknown; signal: AbortSignal },
  ): Promise<CallOutcome> {
    const connection = await orHalted(options.signal, this.#connection(server));
    const params = { name: tool, arguments: options.input };
    return toOutcome(await connection.request("tools/call", params, { signal: options.signal }));
  }

  #connection(server: string): Promise<McpConnection> {
    const open = this.#connections.get(server);
    if (open !== undefined) return open;
    const connecting = this.#connect(server);
    this.#connections.set(server, connecting);
    const forget = () => this.#connections.delete(server);
    connecting.then((connection) => connection.ended.then(forget), forget);
    return connecting;
  }

  async #connect(server: string): Promise<McpConnection> {
    const entry = this.#entries.get(server);
    if (entry === undefined) {
      const known = [...this.#entries.keys()].join(", ") || "none";
      throw new McpFailure(server, `There is no MCP server "${server}" (connected: ${known})`);
    }
    if (entry.type === "sse") {
      throw new McpFailure(server, `MCP server "${server}" has the old transport "sse"; give it type "http"`);
    }
    const connection =
      entry.url === undefined
        ? connectStdio(server, { command: entry.command ?? "", args: entry.args ?? [], env: entry.env ?? {} })
        : connectHttp(server, { url: entry.url, headers: entry.headers ?? {} });
    try {
      await connection.request("initialize", HELLO, { signal: AbortSignal.timeout(30_000) });
      await connection.notify("notifications/initialized");
      return connection;
    } catch (error) {
      connection.close();
      const isLate = error instanceof Error && error.name === "TimeoutError";
      throw isLate
        ? new McpFailure(server, `MCP server "${server}" did not answer within 30 seconds`)
        : error;
    }
  }
}

const HELLO = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "sluice-scripted", version: "1" },
};

function readConfig(file: string): Record<string, ServerEntry> {
  const config = JSON.parse(readFileSync(file, "utf8")) as { mcpServers?: Record<string, ServerEntry> };
  return config.mcpServers ?? {};
}

/** The output of a call, as text. */
interface CallOutcome {
  readonly output: string;
  readonly failed: boolean;
}

interface CallResult {
  content?: { type: string; text?: string }[];
  structuredContent?: unknown;
  isError?: boolean;
}

function toOutcome(result: unknown): CallOutcome {
  const { content, structuredContent, isError } = (result ?? {}) as CallResult;
  const texts = (content ?? []).map((part) => part.text ?? JSON.stringify(part));
  const output =
    texts.length > 0 || structuredContent === undefined
      ? texts.join("\n")
      : JSON.stringify(structuredContent);
  return { output, failed: isError === true };
}
