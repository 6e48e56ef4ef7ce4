import type { IncomingMessage } from "node:http";
import { Refusal } from "./refusal.ts";
import type { Json } from "./wire.ts";

/** No model takes a longer request. */
export const LONGEST_BODY: number = 64 * 1024 * 1024;
/** The bodies of all open requests together. The gateway is outside of the sandbox, and so of its limit of memory. */
const MOST_HELD = 256 * 1024 * 1024;
/** A longer body is counted before it is parsed: objects need far more memory than their text. */
const UNCOUNTED_BYTES = 4 * 1024 * 1024;
const MOST_PARTS = 2_000_000;
const [OPEN_BRACE, OPEN_BRACKET, COMMA] = Buffer.from("{[,");

/** Reads the bodies of requests, and keeps their sum below a limit. */
export class Bodies {
  readonly #most: number;
  #held = 0;

  constructor(most: number = MOST_HELD) {
    this.#most = most;
  }

  /** The body of a request. Its room is free again after `release`, or if the reading fails. */
  async read(request: IncomingMessage): Promise<{ body: Buffer; release: () => void }> {
    const { "content-encoding": coding = "identity", "content-length": length } = request.headers;
    if (coding !== "identity")
      throw new Refusal(
        415,
        "encoded",
        "sluice: the gateway takes no compressed request, as it cannot read it.",
      );
    if (Number(length ?? 0) > LONGEST_BODY) throw tooLarge();
    const chunks: Buffer[] = [];
    let size = 0;
    const release = (): void => {
      this.#held -= size;
      size = 0;
    };
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        size += chunk.length;
        this.#held += chunk.length;
        if (size > LONGEST_BODY) throw tooLarge();
        if (this.#held > this.#most) throw tooMany();
        chunks.push(chunk);
      }
    } catch (error) {
      release();
      throw error;
    }
    return { body: chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks), release };
  }
}

/** The JSON of a body. A text that the gateway reads otherwise than the provider would pass its rules. */
export function parseBody(body: Buffer): Json {
  if (body.length > UNCOUNTED_BYTES && countParts(body) > MOST_PARTS) throw tooLarge();
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Json;
  } catch {
    // Told below.
  }
  throw new Refusal(400, "no_json", "sluice: the body of a request to the model is a JSON object in UTF-8.");
}

function countParts(body: Buffer): number {
  let count = 0;
  for (const byte of body) if (byte === COMMA || byte === OPEN_BRACE || byte === OPEN_BRACKET) count += 1;
  return count;
}

function tooLarge(): Refusal {
  const text = `sluice: a request to the model has at most ${LONGEST_BODY} bytes, and ${MOST_PARTS} parts.`;
  return new Refusal(413, "too_large", text);
}

function tooMany(): Refusal {
  const text =
    "sluice: the open requests of this session are too long together. Try again when one has ended.";
  return new Refusal(503, "too_many_bytes", text, 5);
}
