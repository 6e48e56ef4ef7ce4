import { LineSplitter } from "../../text/line-splitter.ts";
import { toResult, McpFailure, type RpcMessage, type McpConnection } from "./mcp-connection.ts";

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
