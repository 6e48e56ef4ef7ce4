import type { Headers } from "../headers.ts";

/** One line of a cassette: a request, without its text, and its answer. */
export interface Exchange {
  readonly v: 1;
  readonly wire: string;
  /** The provider's name in events. */
  readonly provider: string;
  /** The hash of the request with its volatile places masked. */
  readonly key: string;
  /** The sub-agent that asked; absent for the main agent. */
  readonly lane?: string;
  /** The count of earlier exchanges with this key in this lane. */
  readonly ordinal: number;
  readonly request: RecordedRequest;
  readonly response: {
    readonly status: number;
    readonly headers: Headers;
    readonly chunks: readonly Chunk[];
  };
  /** Which side broke the answer off before its end. */
  readonly cut?: "provider" | "agent";
}

export interface RecordedRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly model?: string;
  readonly body_sha256: string;
  /** The body's JSON with a hash in the place of each text. */
  readonly shape: unknown;
}

/** The milliseconds since the request, and the bytes: as text where they are UTF-8. */
export type Chunk =
  | readonly [ms: number, text: string]
  | readonly [ms: number, bytes: string, coding: "base64"];

export function toChunk(ms: number, bytes: Buffer): Chunk {
  const text = bytes.toString("utf8");
  if (Buffer.from(text).equals(bytes)) return [ms, text];
  return [ms, bytes.toString("base64"), "base64"];
}

export function toBytes([, text, coding]: Chunk): Buffer {
  return Buffer.from(text, coding ?? "utf8");
}

/** The whole answer. */
export function toBody({ response }: Pick<Exchange, "response">): Buffer {
  return Buffer.concat(response.chunks.map(toBytes));
}

/** The beginning of every line, by which a cassette is known. */
export const BEGINNING = '{"v":1,"wire":';

export function formatExchange({ v, wire, ...rest }: Exchange): string {
  return `${JSON.stringify({ v, wire, ...rest })}\n`;
}

/** Says which line is damaged, and nothing of its text: the file may be any file. */
export class DamagedCassette extends Error {
  readonly line: number;

  constructor(line: number, why: string) {
    super(`line ${line} ${why}`);
    this.name = "DamagedCassette";
    this.line = line;
  }
}

/** The exchanges of a cassette. A half line at its end is left out: its writer was killed. */
export function parseCassette(bytes: Buffer): Exchange[] {
  const lines = bytes.toString("utf8").split("\n");
  const rest = lines.pop() ?? "";
  const exchanges = lines.flatMap((text, at) => (text === "" ? [] : [parseLine(text, at + 1)]));
  const last = rest === "" ? undefined : tryParse(rest);
  return last === undefined ? exchanges : [...exchanges, parseLine(rest, lines.length + 1)];
}

function parseLine(text: string, line: number): Exchange {
  const value = tryParse(text);
  if (value === undefined) throw new DamagedCassette(line, "is no JSON");
  if (!isObject(value) || value["v"] !== 1) {
    throw new DamagedCassette(line, "is no exchange of a cassette in the form that this version knows");
  }
  const { wire, provider, key, lane, ordinal, request, response, cut } = value;
  const isWhole =
    isText(wire) &&
    isText(provider) &&
    isText(key) &&
    (lane === undefined || isText(lane)) &&
    isCount(ordinal) &&
    isRequest(request) &&
    isResponse(response) &&
    (cut === undefined || cut === "provider" || cut === "agent");
  if (!isWhole) throw new DamagedCassette(line, "lacks a field of an exchange, or has a wrong one");
  return value as unknown as Exchange;
}

function isRequest(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { method, path, model, body_sha256: hash } = value;
  return isText(method) && isText(path) && (model === undefined || isText(model)) && isText(hash);
}

function isResponse(value: unknown): boolean {
  if (!isObject(value) || !isObject(value["headers"]) || !Array.isArray(value["chunks"])) return false;
  const { status, headers, chunks } = value as { status: unknown; headers: object; chunks: unknown[] };
  const isStatus = isCount(status) && status >= 200 && status <= 599;
  return isStatus && Object.entries(headers).every(isHeader) && chunks.every(isChunk);
}

function isHeader([name, values]: [string, unknown]): boolean {
  const isName = /^[a-z0-9-]{1,100}$/.test(name);
  return (
    isName && Array.isArray(values) && values.every((text) => isText(text) && /^[\t\x20-\x7e]*$/.test(text))
  );
}

function isChunk(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 2 || value.length > 3) return false;
  const [ms, text, coding] = value as unknown[];
  return typeof ms === "number" && ms >= 0 && isText(text) && (coding === undefined || coding === "base64");
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
