/** A connection to an MCP server: JSON-RPC over any transport. */
export interface McpConnection {
  request(method: string, params: unknown, options: { signal: AbortSignal }): Promise<unknown>;
  notify(method: string, params?: unknown): Promise<void>;
  close(): void;
  /** Resolves when the server is gone. */
  readonly ended: Promise<void>;
}

export interface RpcMessage {
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

export function toResult(server: string, message: RpcMessage): unknown {
  if (message.error === undefined) return message.result;
  throw new Error(`MCP server "${server}" answered error ${message.error.code}: ${message.error.message}`);
}

/** The answer to a request of the server. This client answers `ping` only. */
export function toAnswer(message: RpcMessage): RpcMessage {
  if (message.method === "ping") return { jsonrpc: "2.0", id: message.id ?? null, result: {} };
  const error = { code: -32601, message: `${message.method ?? "that"} is not offered` };
  return { jsonrpc: "2.0", id: message.id ?? null, error };
}
