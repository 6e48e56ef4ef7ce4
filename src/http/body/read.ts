import type { IncomingMessage } from "node:http";
import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { AppEnv } from "../context.ts";

export interface BodyLimits {
  readonly json: number;
  readonly upload: number;
  /** For files of a sandbox, which are never held in memory. */
  readonly file: number;
}

export const BODY_LIMITS: BodyLimits = {
  json: 32 * 1024 * 1024,
  upload: 512 * 1024 * 1024,
  file: Number.POSITIVE_INFINITY,
};

const DISCARD_MS = 10_000;

/** Bodies that were read before their route. */
const kept = new WeakMap<Request, Buffer>();

/** Reads the whole body, and keeps it for `readBody`. */
export async function keepBody(c: Context<AppEnv>, limit: number): Promise<Buffer> {
  const body = kept.get(c.req.raw) ?? (await readBody(c, limit));
  kept.set(c.req.raw, body);
  return body;
}

/** The whole body. Throws `too_large` as soon as that is known, and keeps no byte beyond the limit. */
export async function readBody(c: Context<AppEnv>, limit: number): Promise<Buffer> {
  const known = kept.get(c.req.raw);
  if (known) return known;
  const isTooLarge = Number(c.req.header("content-length") ?? 0) > limit;
  const incoming = c.env?.incoming;
  if (!incoming) {
    if (isTooLarge) throw tooLarge(limit);
    return Buffer.concat(await collectWeb(c.req.raw.body, limit));
  }
  const body = isTooLarge ? undefined : await collect(incoming, limit);
  if (body) return body;
  await discard(incoming);
  throw tooLarge(limit);
}

/** The body as it arrives. Throws `too_large` as soon as that is known. */
export async function* streamBody(c: Context<AppEnv>, limit: number): AsyncGenerator<Uint8Array> {
  const incoming = c.env?.incoming;
  let size = Number(c.req.header("content-length") ?? 0) > limit ? Infinity : 0;
  try {
    if (size <= limit) {
      for await (const chunk of chunksOf(c)) {
        size += chunk.length;
        if (size > limit) break;
        yield chunk;
      }
    }
  } catch (cause) {
    throw new SluiceError("invalid_request", "The body ended too early.", {}, { cause });
  }
  if (size <= limit) return;
  if (incoming) await discard(incoming);
  throw tooLarge(limit);
}

function chunksOf(c: Context<AppEnv>): AsyncIterable<Uint8Array> {
  // The socket has to survive an early end of the loop, as it carries the response.
  const incoming: AsyncIterable<Uint8Array> | undefined = c.env?.incoming?.iterator({
    destroyOnReturn: false,
  });
  return incoming ?? readChunks(c.req.raw.body);
}

/** The chunks of a body. Leaving the loop cancels the rest. */
export async function* readChunks(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array, void> {
  const reader = body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

// Resolves to undefined as soon as the limit is exceeded. Reads Node's stream: cancelling a web stream destroys the
// socket before the client can read the response.
function collect(incoming: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const announced = Number(incoming.headers["content-length"]);
    let size = 0;
    const stop = (settle: () => void): void => {
      incoming.off("data", onData).off("end", onEnd).off("error", onCut).off("close", onCut);
      settle();
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        // The body is complete; its `end` event follows some ticks later.
        if (size === announced) onEnd();
        return;
      }
      chunks.length = 0;
      stop(() => resolve(undefined));
    };
    const onEnd = (): void => stop(() => resolve(Buffer.concat(chunks, size)));
    const onCut = (): void =>
      stop(() => reject(new SluiceError("invalid_request", "The body ended too early.")));
    if (incoming.destroyed) return onCut();
    if (incoming.readableEnded) return resolve(Buffer.alloc(0));
    incoming.on("data", onData).on("end", onEnd).on("error", onCut).on("close", onCut);
  });
}

/**
 * With `Connection: close`, the connection ends with the response. A client that still sends then sees a reset, and
 * many never read the response. So the rest of such a body is discarded before the response, for a limited time.
 */
async function discard(incoming: IncomingMessage): Promise<void> {
  incoming.resume();
  if (incoming.complete || !/\bclose\b/i.test(incoming.headers.connection ?? "")) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, DISCARD_MS);
    const done = (): void => {
      clearTimeout(timer);
      resolve();
    };
    incoming.once("end", done).once("close", done);
  });
}

async function collectWeb(body: ReadableStream<Uint8Array> | null, limit: number): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  if (!body) return chunks;
  const reader = body.getReader();
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return chunks;
    size += value.length;
    if (size > limit) {
      void reader.cancel().catch(() => {});
      throw tooLarge(limit);
    }
    chunks.push(value);
  }
}

function tooLarge(limit: number): SluiceError {
  const detail = `The body is larger than the limit of ${limit} bytes. Send less at once.`;
  return new SluiceError("too_large", detail, { limit });
}
