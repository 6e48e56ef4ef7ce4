import { request, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Access } from "./access.ts";

export interface Asked {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface AskOptions {
  readonly body?: unknown;
  readonly signal: AbortSignal;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;

/** The way to the engine. A server that is away is asked again until it is back, or nobody waits any more. */
export async function ask(access: Access, method: string, path: string, options: AskOptions): Promise<Asked> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const asked = await askOnce(access, method, path, options).catch(() => undefined);
    options.signal.throwIfAborted();
    if (asked && asked.status < 500) return asked;
    await sleep(pause, undefined, { signal: options.signal });
  }
}

async function askOnce(
  { url, token }: Access,
  method: string,
  path: string,
  { body, signal }: AskOptions,
): Promise<Asked> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(`${url}/${path}`, { method, headers, signal, agent: false }, resolve)
      .on("error", reject)
      .end(body === undefined ? undefined : JSON.stringify(body));
  });
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString("utf8");
  return { status: response.statusCode ?? 0, body: JSON.parse(text) as Asked["body"] };
}
