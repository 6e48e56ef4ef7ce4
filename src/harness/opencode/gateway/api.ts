import { request, type IncomingMessage } from "node:http";
import { print } from "./output.ts";

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

  /** Without a `signal` it waits for ever: a compaction takes as long as its model. */
  async send(
    method: string,
    path: string,
    options: { body?: unknown; signal?: AbortSignal } = {},
  ): Promise<Answer> {
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

  open(
    method: string,
    path: string,
    { body, signal }: { body?: unknown; signal?: AbortSignal } = {},
  ): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const sent = request(
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
          ...(signal === undefined ? {} : { signal }),
        },
        resolve,
      );
      sent.on("error", reject);
      sent.end(text);
    });
  }
}

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
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await api.send(method, path, { signal, ...(body === undefined ? {} : { body }) });
  print(JSON.stringify({ method, path, ...answer }));
  const id = answer.status === 200 ? (JSON.parse(answer.body) as { id?: unknown }).id : undefined;
  if (typeof id === "string") return id;
  throw new Error(`${method} ${path} was answered with ${answer.status}: ${answer.body.slice(0, 300)}`);
}
