import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
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
  write(record: GatewayRecord): void;
  /** The size of the file. It ends with the last record written here, unless another gateway has written since. */
  position(): number;
}

/** The most refusals a minute that are written: a program inside may cause any number. */
const MOST_REFUSALS = 10;
/** After this many bytes a gateway writes no further records. */
const MOST_BYTES = 256 * 1024 * 1024;

/**
 * Appends to the file of records. Each line is one write, so that two gateways of a sandbox, of which one is about to
 * leave, do not mix their lines.
 */
export function openRecords(path: string): RecordWriter & { close(): void } {
  const file = openSync(path, "a", 0o600);
  let written = 0;
  let refusals: number[] = [];
  return {
    write(record) {
      if (record.type === "refused") {
        refusals = refusals.filter((time) => record.time - time < 60_000);
        if (refusals.length >= MOST_REFUSALS) return;
        refusals.push(record.time);
      }
      const line = Buffer.from(`${JSON.stringify(record)}\n`);
      if (written + line.length > MOST_BYTES) return;
      written += line.length;
      try {
        writeSync(file, line);
      } catch {
        // A full disk must not stop the agent. The request is missing from the log then.
      }
    },
    position: () => fstatSync(file).size,
    close: () => closeSync(file),
  };
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
