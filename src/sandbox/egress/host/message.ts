import type { ClientRequest, IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import zlib, { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { toAuthority } from "../connection.ts";
import { ReplaceStream, type Headers, type Substitution } from "./lender.ts";
import { Refusal } from "./refusal.ts";
import { HOP_BY_HOP } from "../../../gateway/headers.ts";

/** A longer body is sent in chunks: its new length is not known before its end. */
const LONGEST_KEPT = 8 * 1024 * 1024;

/** A request of the sandbox to a host. */
interface Outward {
  readonly headers: Headers;
  send(outgoing: ClientRequest): Promise<void>;
}

/** An answer on its way in. */
export interface Inward {
  readonly status: number;
  readonly reason: string;
  readonly headers: Headers;
  /** The transforms of its body, in this order. */
  readonly through: readonly Transform[];
}

/** Puts into a request the secrets that may go to its host. */
export async function prepareRequest(
  request: IncomingMessage,
  where: { host: string; port: number; isSecure: boolean; substitution: Substitution | undefined },
): Promise<Outward> {
  refuseFraming(request);
  const headers = toOutwardHeaders(toHeaders(request), where);
  const send = (outgoing: ClientRequest): Promise<void> => pipeline(request, outgoing);
  const { substitution, isSecure } = where;
  const inBody = substitution?.inBody(request.headers["content-type"] ?? "") ?? [];
  if (inBody.length === 0 || !hasBody(request)) return { headers, send };
  const decoders = createDecoders(request.headers["content-encoding"]);
  if (decoders === undefined) {
    const coding = JSON.stringify(request.headers["content-encoding"]);
    const text = `sluice: secrets may be put into the body of this request, and a body coded with ${coding} cannot be read here. Send it as it is, or with gzip, deflate or br.\n`;
    throw new Refusal(415, text);
  }
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

/** The headers of a request to a host. A host that knows secrets is asked for a whole answer without compression. */
export function toOutwardHeaders(
  given: Headers,
  where: { host: string; port: number; isSecure: boolean; substitution: Substitution | undefined },
): Headers {
  const { substitution, isSecure } = where;
  if (substitution === undefined) return given;
  if (!isSecure && substitution.hasPlaceholder(given)) throw onlyByTls(where);
  const kept = Object.entries(given).filter(([name]) => !DROPPED.test(name));
  const headers = Object.fromEntries(kept);
  return {
    ...(isSecure ? substitution.inHeaders(headers) : headers),
    "accept-encoding": ["identity"],
  };
}

/** Takes out of an answer the secrets that this or another request sent to its host. */
export function toInward(answer: IncomingMessage, substitution: Substitution | undefined): Inward {
  const given = toHeaders(answer);
  const { statusCode: status = 502, statusMessage: reason = "" } = answer;
  if (substitution === undefined) return { status, reason, headers: given, through: [] };
  const coding = answer.headers["transfer-encoding"]?.trim().toLowerCase() ?? "chunked";
  const decoders = coding === "chunked" ? createDecoders(answer.headers["content-encoding"]) : undefined;
  if (decoders === undefined) throw new Refusal(502, UNREADABLE_ANSWER);
  if (status === 206 || given["content-range"] !== undefined) throw new Refusal(502, PARTIAL_ANSWER);
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

const UNREADABLE_ANSWER =
  "sluice: the answer is coded in a way that cannot be read here, and secrets may be in it: it is not passed on.\n";
const PARTIAL_ANSWER =
  "sluice: the host sent a part of its answer, and it may be the part of a secret: it is not passed on. Ask for the whole of it.\n";

/** Request headers that are dropped: in a part of an answer, or in a compressed one, a secret would not be found. */
const DROPPED = /^(range|if-range|request-range|accept-encoding)$/;

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

/** The headers of a message, without those that are about its connection. */
export function toHeaders(message: IncomingMessage): Headers {
  const dropped = new Set(HOP_BY_HOP);
  for (const word of (message.headers.connection ?? "").split(",")) {
    const name = word.trim().toLowerCase();
    if (!ESSENTIAL.test(name)) dropped.add(name);
  }
  const isChunked = message.headers["transfer-encoding"] !== undefined;
  // Only one of the two headers may tell the body's length.
  if (isChunked) dropped.add("content-length");
  const entries = Object.entries(message.headersDistinct).flatMap(([name, values]): [string, string[]][] =>
    dropped.has(name) || values === undefined ? [] : [[name, values]],
  );
  const isRequest = message.method !== null && message.method !== undefined;
  if (isRequest && isChunked) entries.push(["transfer-encoding", ["chunked"]]);
  return Object.fromEntries(entries);
}

/** Refuses requests that two servers could read in two ways. */
export function refuseFraming({ headers, httpVersion }: IncomingMessage): void {
  const coding = headers["transfer-encoding"];
  if (coding === undefined) return;
  if (coding.trim().toLowerCase() !== "chunked") {
    const text = "sluice: the only transfer coding of a request that the proxy passes on is chunked.\n";
    throw new Refusal(400, text);
  }
  if (headers["content-length"] !== undefined || httpVersion === "1.0") {
    const text = "sluice: the request says in two ways how long its body is; send only one of them.\n";
    throw new Refusal(400, text);
  }
}

/** Headers that a Connection header cannot remove: framing, coding and credentials. */
const ESSENTIAL = /^(content-.*|accept-encoding|authorization|cookie|set-cookie|location)$/;

/** Each decoder costs memory, and real messages have no more codings. */
const MOST_CODINGS = 3;

/** The decoders of a Content-Encoding, in the order of decoding; undefined where a coding is unknown. */
function createDecoders(header: string | undefined): Transform[] | undefined {
  const names = (header ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "identity");
  const makers = names
    .toReversed()
    .map((name) => (Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined));
  if (makers.length > MOST_CODINGS || makers.includes(undefined)) return undefined;
  return makers.map((make) => (make as () => Transform)());
}

const DECODERS: Readonly<Record<string, (() => Transform) | undefined>> = {
  gzip: () => createGunzip(),
  "x-gzip": () => createGunzip(),
  deflate: () => createInflate(),
  br: () => createBrotliDecompress(),
  // Since Node 22.15.
  zstd: (zlib as { createZstdDecompress?: () => Transform }).createZstdDecompress,
};
