import { randomBytes } from "node:crypto";
import { Agent, request as httpsRequest, type RequestOptions } from "node:https";
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SluiceError } from "../../contract/index.ts";
import type { KubeConfig } from "./config.ts";
import { ExecStream } from "./exec-stream.ts";

const TIMEOUT_MS = 30_000;
const LONGEST = 16 * 1024 * 1024;

/** An answer of the API server that is no success. */
export class KubeError extends Error {
  override readonly name = "KubeError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The API server of a cluster, by its documented HTTP. */
export class KubeApi {
  readonly config: KubeConfig;
  readonly #agent: Agent;

  constructor(config: KubeConfig) {
    this.config = config;
    this.#agent = new Agent({ keepAlive: true, maxFreeSockets: 2, ...config.tls });
  }

  /** A path below the namespace, such as `pods/name`. */
  path(rest: string): string {
    return `/api/v1/namespaces/${encodeURIComponent(this.config.namespace)}/${rest}`;
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await this.#send(method, path, {
      text,
      headers: text === undefined ? {} : { "content-type": "application/json" },
    });
    const answer = await readText(response);
    const status = response.statusCode ?? 0;
    if (status < 300) return JSON.parse(answer) as T;
    throw new KubeError(status, messageOf(answer, status));
  }

  /** The standard streams of a command in a pod. */
  async exec(pod: string, command: readonly string[]): Promise<Duplex> {
    const query = new URLSearchParams([
      ...command.map((part) => ["command", part]),
      ["container", "sandbox"],
      ...["stdin", "stdout", "stderr"].map((name) => [name, "true"]),
    ]);
    const request = await this.#request("GET", `${this.path(`pods/${pod}/exec`)}?${query.toString()}`, {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": "v4.channel.k8s.io",
    });
    return new Promise((resolve, reject) => {
      request.on("upgrade", (_response, socket, first) => {
        socket.setTimeout(0);
        resolve(new ExecStream(socket, first));
      });
      request.on("response", (response) => {
        readText(response).then((text) => {
          const status = response.statusCode ?? 0;
          reject(new KubeError(status, messageOf(text, status)));
        }, reject);
      });
      request.on("error", reject);
      request.end();
    });
  }

  async #send(
    method: string,
    path: string,
    { text, headers }: { text: string | undefined; headers: Record<string, string> },
  ): Promise<IncomingMessage> {
    const request = await this.#request(method, path, headers, this.#agent);
    return new Promise((resolve, reject) => {
      request.on("response", resolve).on("error", reject);
      request.end(text);
    });
  }

  async #request(
    method: string,
    path: string,
    headers: Record<string, string>,
    agent?: Agent,
  ): Promise<ClientRequest> {
    const { server, tls, token } = this.config;
    const bearer = token ? { authorization: `Bearer ${await token()}` } : {};
    const options: RequestOptions = {
      method,
      host: server.hostname.replace(/^\[|\]$/g, ""),
      port: server.port || (server.protocol === "http:" ? 80 : 443),
      path: `${server.pathname.replace(/\/$/, "")}${path}`,
      headers: { accept: "*/*", ...headers, ...bearer },
      timeout: TIMEOUT_MS,
    };
    const request =
      server.protocol === "http:"
        ? httpRequest(options)
        : httpsRequest({ ...options, ...tls, ...(agent ? { agent } : {}) });
    return request.on("timeout", () => request.destroy(new Error("the API server does not answer")));
  }
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LONGEST) throw new Error("the answer of the API server is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function messageOf(text: string, status: number): string {
  try {
    const { message } = JSON.parse(text) as { message?: string };
    if (typeof message === "string") return message.slice(0, 1_000);
  } catch {
    // Told by its status.
  }
  return `the API server answered ${status}`;
}

/** The failure of a call as our own. Only a 404 is certain: any other answer may be that of a cluster that restarts. */
export function toUnreachable(error: unknown, what: string): SluiceError {
  if (error instanceof SluiceError) return error;
  const why = error instanceof Error ? error.message : String(error);
  const detail = `${what} cannot be reached now: ${why}. What runs there goes on.`;
  return new SluiceError("sandbox_unreachable", detail, {}, { cause: error });
}
