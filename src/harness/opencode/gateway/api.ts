import { writeSync } from "node:fs";
import http, { type IncomingMessage } from "node:http";

interface RequestOptions {
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** A client of the server's HTTP. A request that fails has status 0 and the reason. */
export class Api {
  readonly #url: URL;
  readonly #authorization: string;

  constructor(url: URL, password: string) {
    this.#url = url;
    this.#authorization = `Basic ${Buffer.from(`opencode:${password}`).toString("base64")}`;
  }

  /** Without a `signal` the call has no time limit: a compaction takes as long as its model. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    try {
      const response = await this.open(method, path, options);
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      return { status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString("utf8") };
    } catch (error) {
      return { status: 0, body: JSON.stringify({ message: (error as Error).message }) };
    }
  }

  async read(path: string, options: { signal: AbortSignal }): Promise<unknown> {
    const { status, body } = await this.send("GET", path, options);
    if (status !== 200) throw new Error(`GET ${path} was answered with ${status}: ${body.slice(0, 300)}`);
    return JSON.parse(body);
  }

  open(method: string, path: string, { body, signal }: RequestOptions = {}): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const sent = http.request(
        new URL(path, this.#url),
        {
          method,
          agent: false,
          headers: {
            authorization: this.#authorization,
            ...(text === undefined
              ? {}
              : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
          },
          signal,
        },
        resolve,
      );
      sent.on("error", reject);
      sent.end(text);
    });
  }
}

/** Short, because a hanging request delays an abort that waits behind it. */
const PATIENCE_MS = 60_000;

/** Opens a new session, an earlier one or a copy of it, and returns its id. */
export async function openSession(
  api: Api,
  options: { resume?: string | undefined; fork?: boolean | undefined; title?: string | undefined },
): Promise<string> {
  const { resume, fork } = options;
  if (resume === undefined) return open(api, "POST", "/session", { title: options.title ?? "sluice" });
  if (fork === true) return open(api, "POST", `/session/${encodeURIComponent(resume)}/fork`, {});
  return open(api, "GET", `/session/${encodeURIComponent(resume)}`);
}

async function open(api: Api, method: string, path: string, body?: unknown): Promise<string> {
  const answer = await send(api, { method, path, body }, AbortSignal.timeout(PATIENCE_MS));
  const id = answer.status === 200 ? (JSON.parse(answer.body) as { id?: unknown }).id : undefined;
  if (typeof id === "string") return id;
  throw new Error(`${method} ${path} was answered with ${answer.status}: ${answer.body.slice(0, 300)}`);
}

interface GatewayRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
}

/** Sends the requests of stdin in order, and prints each answer as a line. Early requests wait. */
export class RequestQueue {
  #api: Api | undefined;
  #waiting: GatewayRequest[] = [];
  #last: Promise<void> = Promise.resolve();

  open(api: Api): void {
    this.#api = api;
    for (const request of this.#waiting.splice(0)) void this.ask(request);
  }

  put(line: string): void {
    if (line.trim() === "") return;
    const request = parseRequest(line);
    if (request === undefined) {
      process.stderr.write(
        `opencode-gateway: ignored a line on stdin that is no request: ${line.slice(0, 200)}\n`,
      );
      return;
    }
    void this.ask(request);
  }

  /**
   * Sends requests in order, so that an abort never overtakes its prompt. No request waits for a compaction or for the
   * list of MCP servers.
   */
  ask(request: GatewayRequest): Promise<void> {
    const api = this.#api;
    if (!api) {
      this.#waiting.push(request);
      return Promise.resolve();
    }
    const isLong = request.path.endsWith("/summarize") || request.path === "/mcp";
    const sent = this.#last.then(async () => {
      await send(api, request, isLong ? undefined : AbortSignal.timeout(PATIENCE_MS));
    });
    if (!isLong) this.#last = sent;
    return sent;
  }
}

/** Sends a request and prints its answer. */
async function send(
  api: Api,
  { method, path, body }: GatewayRequest,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const answer = await api.send(method, path, { body, signal });
  print(JSON.stringify({ method, path, ...answer }));
  return answer;
}

function parseRequest(line: string): GatewayRequest | undefined {
  try {
    const { method, path, body } = JSON.parse(line) as Partial<GatewayRequest>;
    const isRequest = typeof method === "string" && typeof path === "string" && path.startsWith("/");
    return isRequest ? { method, path, body } : undefined;
  } catch {
    return undefined;
  }
}

/** Prints one line, whole and in order. It is written before this returns. */
export function print(line: string): void {
  const bytes = Buffer.from(`${line.replaceAll("\n", " ")}\n`);
  for (let at = 0; at < bytes.length;) at += writeSome(bytes, at);
}

function writeSome(bytes: Buffer, at: number): number {
  try {
    return writeSync(1, bytes, at);
  } catch (error) {
    // The pipe is full.
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    return 0;
  }
}
