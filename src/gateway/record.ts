import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";
import type { Usage } from "../contract/index.ts";
import type { RequestKind, WireId } from "./wire.ts";

/** One line about a request: numbers, ids and names. No line has a prompt, an answer, a header or a key. */
export type GatewayRecord =
  /** The first line of each gateway process. */
  | { readonly type: "boot"; readonly time: number }
  | {
      readonly type: "started";
      readonly id: string;
      readonly time: number;
      readonly wire: WireId;
      readonly provider: string;
      readonly model?: string;
      readonly kind?: RequestKind;
      /** The CLI's own id of the sub-agent that asks. */
      readonly agent?: string;
      /** The CLI's own session that asks: the main agent's, or a sub-agent's. */
      readonly session?: string;
      readonly attempt?: number;
      readonly retryOf?: string;
    }
  | { readonly type: "first"; readonly id: string; readonly time: number; readonly ms: number }
  | {
      readonly type: "ended";
      readonly id: string;
      readonly time: number;
      readonly wire: WireId;
      readonly provider: string;
      readonly ms: number;
      readonly ttft?: number;
      /** The status of the answer; none if there was no answer. */
      readonly status?: number;
      readonly model?: string;
      /** The model that the provider was asked for, if the answer names another one. */
      readonly asked?: string;
      readonly response?: string;
      readonly agent?: string;
      readonly session?: string;
      readonly usage?: Usage;
      /** The answer broke off, and its usage is an estimate. */
      readonly estimated?: true;
      readonly stop?: string;
      /** The provider's type of the error, or ours: `unreachable`, `cut`, `cancelled`. */
      readonly error?: string;
      /** The difference from the cassette's nearest recording; never a text of the provider or the agent. */
      readonly detail?: string;
      readonly in: number;
      readonly out: number;
      readonly served: ServedBy;
      readonly rate?: RateLimit;
    }
  /** A limit is reached, and the request waits for its reset: the provider's, or one of the operator's. */
  | {
      readonly type: "limited";
      readonly id: string;
      readonly time: number;
      readonly until: number;
      readonly scope?: "session" | "workspace";
    }
  /** A budget is used up, and a request waits. */
  | {
      readonly type: "held";
      readonly scope: "session" | "workspace";
      readonly time: number;
      readonly measure: "usd" | "tokens" | "requests";
      readonly limit: number;
      readonly spent: number;
      /** The price of the request is not known. */
      readonly unpriced?: true;
    }
  | {
      readonly type: "refused";
      readonly time: number;
      readonly status: number;
      /** Why, in words that hold nothing of the request but its method. */
      readonly why: string;
    }
  /** A cassette is not whole. */
  | { readonly type: "cassette"; readonly time: number; readonly why: string };

export type ServedBy = "provider" | "cassette" | "fallback";

/** The state of the provider's rate limit, as its headers tell it. */
export interface RateLimit {
  readonly remaining?: number;
  /** Milliseconds since 1970. */
  readonly reset?: number;
}

export interface RecordWriter {
  /** Returns the position behind the record; infinite if it could not be written, and so nobody will ever read it. */
  write(record: GatewayRecord): number;
  /** Whether the file is full. A request that is not recorded must not pass. */
  isFull(): boolean;
  /** The records behind a position that were written before this gateway began, each with the position behind it. */
  earlier(from: number): Iterable<{ readonly record: GatewayRecord; readonly end: number }>;
}

/** The most refusals a minute that are written: a program inside may cause any number. */
const MOST_REFUSALS = 10;
/** A longer file takes no further records of requests. */
const MOST_BYTES = 256 * 1024 * 1024;
/** The room behind it, for the ends of the requests that are open then. */
const RESERVE_BYTES = 1024 * 1024;
const READ_BYTES = 1024 * 1024;

/**
 * Appends to the file of records. Each line is one write, so that two gateways of a sandbox, of which one is about to
 * leave, do not mix their lines.
 */
export function openRecords(
  path: string,
  { mostBytes = MOST_BYTES }: { mostBytes?: number } = {},
): RecordWriter & { close(): void } {
  const file = openSync(path, "a+", 0o600);
  const began = fstatSync(file).size;
  let refusals: number[] = [];
  let isHalf = false;
  const append = (line: string): number => {
    try {
      const bytes = Buffer.from(`${isHalf ? "\n" : ""}${line}\n`);
      if (fstatSync(file).size + bytes.length > mostBytes + RESERVE_BYTES) return Number.POSITIVE_INFINITY;
      isHalf = writeSync(file, bytes) < bytes.length;
      return isHalf ? Number.POSITIVE_INFINITY : fstatSync(file).size;
    } catch {
      // A full disk must not stop the agent. The request is missing from the log then.
      return Number.POSITIVE_INFINITY;
    }
  };
  return {
    write(record) {
      if (record.type === "refused") {
        refusals = refusals.filter((time) => record.time - time < 60_000);
        if (refusals.length >= MOST_REFUSALS) return Number.POSITIVE_INFINITY;
        refusals.push(record.time);
      }
      return append(JSON.stringify(record));
    },
    isFull: () => fstatSync(file).size >= mostBytes,
    earlier: (from) => readEarlier(file, from, began),
    close: () => closeSync(file),
  };
}

function* readEarlier(
  file: number,
  from: number,
  until: number,
): Generator<{ record: GatewayRecord; end: number }> {
  let rest = Buffer.alloc(0);
  for (let at = from; at < until;) {
    const bytes = Buffer.alloc(Math.min(READ_BYTES, until - at));
    const count = readSync(file, bytes, 0, bytes.length, at);
    if (count === 0) return;
    at += count;
    rest = Buffer.concat([rest, bytes.subarray(0, count)]);
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const record = parseRecord(rest.toString("utf8", 0, end));
      rest = rest.subarray(end + 1);
      if (record !== undefined) yield { record, end: at - rest.length };
    }
  }
}

/** The whole lines behind a position, as many as are read at a time. */
export function readLines(
  file: string,
  from: number,
): { lines: { text: string; end: number }[]; isAll: boolean } {
  let fd: number;
  try {
    fd = openSync(file, "r");
  } catch {
    return { lines: [], isAll: true };
  }
  try {
    const length = Math.min(READ_BYTES, fstatSync(fd).size - from);
    if (length <= 0) return { lines: [], isAll: true };
    const bytes = Buffer.alloc(length);
    const read = readSync(fd, bytes, 0, length, from);
    const lines: { text: string; end: number }[] = [];
    for (let at = 0, next = bytes.indexOf(10, at); next >= 0 && next < read; next = bytes.indexOf(10, at)) {
      lines.push({ text: bytes.toString("utf8", at, next), end: from + next + 1 });
      at = next + 1;
    }
    return { lines, isAll: length < READ_BYTES };
  } finally {
    closeSync(fd);
  }
}

/** The record of a line; undefined where the line is none. */
export function parseRecord(line: string): GatewayRecord | undefined {
  try {
    const value = JSON.parse(line) as { type?: unknown } | null;
    const type = typeof value === "object" && value !== null ? value.type : undefined;
    return TYPES.has(type) ? (value as GatewayRecord) : undefined;
  } catch {
    return undefined;
  }
}

const TYPES = new Set<unknown>([
  "boot",
  "started",
  "first",
  "ended",
  "held",
  "limited",
  "refused",
  "cassette",
]);
