import type { ClientRequest, IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { toHeaders } from "./headers.ts";
import { ReplaceStream } from "./replaceStream.ts";
import type { Substitution } from "./substitution.ts";

/** A longer body goes out in chunks, since its length is not known before its end. */
const LONGEST_KEPT = 8 * 1024 * 1024;

/** A request as it leaves. */
export interface Outward {
  readonly headers: Record<string, string[]>;
  /** Whether a secret may be in it. */
  readonly isTouched: boolean;
  send(outgoing: ClientRequest): Promise<void>;
}

/** An answer as it comes in. */
export interface Inward {
  readonly headers: Record<string, string[]>;
  readonly replace?: Transform | undefined;
}

/** Puts into a request what may go to its host. */
export async function toOutward(
  request: IncomingMessage,
  substitution: Substitution | undefined,
): Promise<Outward> {
  const given = toHeaders(request);
  const put = substitution?.inHeaders(given);
  const isCoded = !/^(identity)?$/i.test(request.headers["content-encoding"] ?? "");
  const inBody = isCoded ? [] : (substitution?.inBody(request.headers["content-type"] ?? "") ?? []);
  const isTouched = put !== undefined || inBody.length > 0;
  // What comes back has to be readable here, too.
  const headers = isTouched ? { ...(put ?? given), "accept-encoding": ["identity"] } : given;
  const send = (outgoing: ClientRequest): Promise<void> => pipeline(request, outgoing);
  if (inBody.length === 0 || !hasBody(request)) return { headers, isTouched, send };
  const replace = new ReplaceStream(inBody);
  const length = Number(request.headers["content-length"] ?? Infinity);
  if (length > LONGEST_KEPT) {
    const { "content-length": _length, ...chunked } = headers;
    return {
      headers: { ...chunked, "transfer-encoding": ["chunked"] },
      isTouched,
      send: (outgoing) => pipeline(request, replace, outgoing),
    };
  }
  const body = await pipeline(request, replace, collect);
  return {
    headers: { ...headers, "content-length": [String(body.length)] },
    isTouched,
    send: async (outgoing) => void outgoing.end(body),
  };
}

/** Takes out of an answer what was put into its request: a host may send back what it was sent. */
export function toInward(answer: IncomingMessage, substitution: Substitution | undefined): Inward {
  const given = toHeaders(answer);
  if (substitution === undefined) return { headers: given };
  const headers = substitution.inAnswerHeaders(given);
  const isCoded = !/^(identity)?$/i.test(answer.headers["content-encoding"] ?? "");
  if (isCoded) return { headers };
  const { "content-length": _length, ...unmeasured } = headers;
  return { headers: unmeasured, replace: new ReplaceStream(substitution.inAnswer()) };
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

async function collect(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
