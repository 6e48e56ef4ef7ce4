import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { SluiceError } from "../contract/index.ts";
import { parseObject, toMcpResult, toMcpTool } from "./content.ts";
import type { Desk, ToolCall, ToolRun, ToolRuns } from "./port.ts";
import { isTokenOf, parseRunPath, tokenOf } from "./token.ts";

interface ListenerOptions {
  readonly key: Buffer;
  readonly runs: ToolRuns;
  readonly desk?: Desk | undefined;
  /** The time that a request waits for the result of a call. After it the caller has to send the request again. */
  readonly patienceMs: number;
}

const LARGEST_BODY = 32 * 1024 * 1024;

/** Answers the MCP servers in the sandboxes. A request without a valid token gets no information. */
export function createListener(options: ListenerOptions): RequestListener {
  return (request, response) => {
    answer(request, response, options).catch((error: unknown) => refuse(response, error));
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: ListenerOptions,
): Promise<void> {
  if (request.url?.endsWith("/desk") && options.desk !== undefined)
    return answerDesk(request, response, { key: options.key, desk: options.desk });
  const { run, rest } = authenticate(request, options.key);
  const { runs } = options;
  const [resource, callId = ""] = rest;
  const isCall = resource === "calls" && rest.length === 2 && /^[A-Za-z0-9_-]{8,64}$/.test(callId);
  if (request.method === "GET" && resource === "tools" && rest.length === 1) {
    return send(response, 200, { tools: (await runs.list(run)).map(toMcpTool) });
  }
  if (request.method === "PUT" && isCall) {
    const call = parseCall(callId, await readBody(request));
    return wait(response, { run, call }, options);
  }
  if (request.method === "DELETE" && isCall) {
    await runs.cancel(run, callId);
    return send(response, 200, {});
  }
  throw new SluiceError("not_found", `there is no ${request.method} ${request.url}`);
}

/**
 * Gives a gateway its keys. The gateway proves with the HMAC of a nonce that it knows the token, and does not send the
 * token: after the end of this server another program may listen on the port.
 */
async function answerDesk(
  { url = "", method, headers }: IncomingMessage,
  response: ServerResponse,
  { key, desk }: { key: Buffer; desk: Desk },
): Promise<void> {
  const path = parseRunPath(url);
  const proof = /^Bearer ([0-9a-f]{64})$/.exec(headers.authorization ?? "")?.[1] ?? "";
  const nonce = String(headers["sluice-nonce"] ?? "");
  if (path === undefined || method !== "GET") throw new SluiceError("token_invalid", "");
  const keys = await desk({ run: path.run, token: tokenOf(key, path.run), nonce, proof });
  if (keys === undefined) throw new SluiceError("token_invalid", "");
  if (keys === "unknown") return send(response, 503, {});
  response.writeHead(200, { "content-type": "application/octet-stream" });
  response.end(keys);
}

function authenticate(
  { url = "", headers }: IncomingMessage,
  key: Buffer,
): { run: ToolRun; rest: readonly string[] } {
  const path = parseRunPath(url);
  const token = /^Bearer ([0-9a-f]+)$/.exec(headers.authorization ?? "")?.[1] ?? "";
  // A bad path is compared too, so that it takes the same time as a wrong token.
  const run = path?.run ?? { session: "", createdAt: 0, process: 0 };
  if (isTokenOf(key, run, token) && path) return path;
  throw new SluiceError("token_invalid", "");
}

async function wait(
  response: ServerResponse,
  { run, call }: { run: ToolRun; call: ToolCall },
  { runs, patienceMs }: ListenerOptions,
): Promise<void> {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), patienceMs);
  response.once("close", () => abort.abort());
  try {
    const resolved = await runs.call(run, call, { signal: abort.signal });
    if (resolved) return send(response, 200, toMcpResult(resolved));
    return send(response, 202, {});
  } finally {
    clearTimeout(timer);
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LARGEST_BODY) throw new SluiceError("too_large", `a call has at most ${LARGEST_BODY} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseCall(id: string, body: string): ToolCall {
  const call = parseObject(body);
  const name = call?.["name"];
  if (typeof name === "string") return { id, name, input: call?.["input"] ?? {} };
  throw new SluiceError("invalid_request", 'a call is {"name": string, "input": object}');
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy();
  if (!(error instanceof SluiceError)) return send(response, 503, {});
  // The answer for an ended run is the same as for one that never existed.
  const isGone = error.code === "token_invalid" || error.code === "session_not_found";
  if (isGone) return send(response, 401, {});
  const mayRetry = error.retryable || error.code === "session_busy";
  send(response, mayRetry ? 503 : error.status, { error: error.message });
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
