import type { ClientRequest, IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { toAuthority } from "../hostPort.ts";
import { toDecoders } from "./codings.ts";
import { refuseFraming, toHeaders, type Headers } from "./headers.ts";
import { Refusal } from "./refusal.ts";
import { ReplaceStream } from "./replaceStream.ts";
import type { Substitution } from "./substitution.ts";

/** A longer body goes out in chunks, since its length is not known before its end. */
const LONGEST_KEPT = 8 * 1024 * 1024;

/** A request as it leaves. */
export interface Outward {
  readonly headers: Headers;
  send(outgoing: ClientRequest): Promise<void>;
}

/** An answer as it comes in. */
export interface Inward {
  readonly status: number;
  readonly reason: string;
  readonly headers: Headers;
  /** What its body goes through, in this order. */
  readonly through: readonly Transform[];
}

/** Puts into a request what may go to its host. */
export async function toOutward(
  request: IncomingMessage,
  where: { host: string; port: number; isSecure: boolean; substitution: Substitution | undefined },
): Promise<Outward> {
  refuseFraming(request);
  const headers = toOutwardHeaders(toHeaders(request), where);
  const send = (outgoing: ClientRequest): Promise<void> => pipeline(request, outgoing);
  const { substitution, isSecure } = where;
  const inBody = substitution?.inBody(request.headers["content-type"] ?? "") ?? [];
  if (inBody.length === 0 || !hasBody(request)) return { headers, send };
  const decoders = toDecoders(request.headers["content-encoding"]);
  if (decoders === undefined) throw unreadableBody(request.headers["content-encoding"]);
  const replace = new ReplaceStream(isSecure ? inBody : []);
  const length = decoders.length > 0 ? Infinity : Number(request.headers["content-length"] ?? Infinity);
  if (length > LONGEST_KEPT) {
    const { "content-length": _length, "content-encoding": _coding, ...chunked } = headers;
    return {
      headers: { ...chunked, "transfer-encoding": ["chunked"] },
      send: (outgoing) => pipeline([request, ...decoders, replace, outgoing]),
    };
  }
  const body = await pipeline(request, replace, collect);
  if (!isSecure && inBody.some(([placeholder]) => body.includes(placeholder))) throw onlyByTls(where);
  return {
    headers: { ...headers, "content-length": [String(body.length)] },
    send: async (outgoing) => void outgoing.end(body),
  };
}

/** The headers of a request to a host; where secrets may go there, its answer has to be whole and readable. */
export function toOutwardHeaders(
  given: Headers,
  where: { host: string; port: number; isSecure: boolean; substitution: Substitution | undefined },
): Headers {
  const { substitution, isSecure } = where;
  if (substitution === undefined) return given;
  if (!isSecure && substitution.isMeantIn(given)) throw onlyByTls(where);
  const kept = Object.entries(given).filter(([name]) => !PARTIAL.test(name));
  const headers = Object.fromEntries(kept);
  return {
    ...(isSecure ? substitution.inHeaders(headers) : headers),
    "accept-encoding": ["identity"],
  };
}

/** Takes out of an answer what its host may have been sent, by this request or another. */
export function toInward(answer: IncomingMessage, substitution: Substitution | undefined): Inward {
  const given = toHeaders(answer);
  const { statusCode: status = 502, statusMessage: reason = "" } = answer;
  if (substitution === undefined) return { status, reason, headers: given, through: [] };
  const coding = answer.headers["transfer-encoding"]?.trim().toLowerCase() ?? "chunked";
  const decoders = coding === "chunked" ? toDecoders(answer.headers["content-encoding"]) : undefined;
  if (decoders === undefined) throw unreadableAnswer();
  if (status === 206 || given["content-range"] !== undefined) throw partialAnswer();
  const rawNames = answer.rawHeaders.filter((_text, at) => at % 2 === 0);
  const {
    "content-length": _length,
    "content-encoding": _coding,
    "accept-ranges": _ranges,
    ...headers
  } = substitution.scrubHeaders(given, rawNames);
  const isEmpty = status === 204 || status === 304;
  const through = [...(isEmpty ? [] : decoders), substitution.createStream()];
  return { status, reason: substitution.scrub(reason), headers, through };
}

/** By pieces a secret could be read that is not to be found in any of them. */
const PARTIAL = /^(range|if-range|request-range|accept-encoding)$/;

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

async function collect(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function onlyByTls({ host, port }: { host: string; port: number }): Refusal {
  return new Refusal(
    403,
    `sluice: this request to ${toAuthority(host, port)} holds the placeholder of a secret, and secrets go by TLS only: anybody on the way could read it.\n` +
      `Ask for https://${host} instead.\n`,
  );
}

function unreadableBody(coding: string | undefined): Refusal {
  return new Refusal(
    415,
    `sluice: secrets may be put into the body of this request, and a body coded with ${JSON.stringify(coding)} cannot be read here. Send it as it is, or with gzip, deflate or br.\n`,
  );
}

function unreadableAnswer(): Refusal {
  return new Refusal(
    502,
    "sluice: the answer is coded in a way that cannot be read here, and secrets may be in it: it is not passed on.\n",
  );
}

function partialAnswer(): Refusal {
  return new Refusal(
    502,
    "sluice: the host sent a part of its answer, and it may be the part of a secret: it is not passed on. Ask for the whole of it.\n",
  );
}
