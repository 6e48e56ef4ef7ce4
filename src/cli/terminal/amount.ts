import { InvalidArgumentError } from "commander";
import { Budget, PerMinute } from "../../contract/index.ts";

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 0 B, 999 B, 1.5 kB, 24 MB, in steps of a thousand. */
export function toSize(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 9.95 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

const MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const BYTES = { kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 } as const;

/** 45m, 12h, 30d in milliseconds. */
export function parseDuration(text: string): number {
  const amount = amountOf(text, MS);
  if (amount !== undefined) return amount;
  throw new InvalidArgumentError(
    "A duration is a number of minutes, hours or days, such as 45m, 12h or 30d.",
  );
}

/** The same, and 30s: for what may be short. */
export function parseShortDuration(text: string): number {
  const amount = amountOf(text, { s: 1000, ...MS });
  if (amount !== undefined) return amount;
  throw new InvalidArgumentError(
    "A duration is a number of seconds, minutes, hours or days, such as 30s, 45m, 12h or 30d.",
  );
}

/** 500MB, 10GB in bytes, in steps of a thousand. */
export function parseSize(text: string): number {
  const amount = amountOf(text, BYTES);
  if (amount !== undefined) return amount;
  throw new InvalidArgumentError("A size is a number of kB, MB, GB or TB, such as 500MB or 10GB.");
}

const LIMITS: Readonly<Record<string, readonly [keyof Budget, number]>> = {
  usd: ["usd", 1],
  tokens: ["tokens", 1],
  "k-tokens": ["tokens", 1e3],
  "M-tokens": ["tokens", 1e6],
  requests: ["requests", 1],
  min: ["minutes", 1],
  h: ["minutes", 60],
};

/** 2usd, 500k-tokens, 40-requests, 30min; several options make one budget. */
export function parseBudget(text: string, before: Budget = {}): Budget {
  const [, count = "", unit = ""] = /^(\d+(?:\.\d+)?)-?([A-Za-z][A-Za-z-]*)$/.exec(text) ?? [];
  const [measure, factor] = Object.hasOwn(LIMITS, unit) ? (LIMITS[unit] ?? []) : [];
  const budget = measure && { ...before, [measure]: Number(count) * (factor ?? 1) };
  const parsed = Budget.safeParse(budget);
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError(
    "A budget is an amount above zero such as 2usd, 500k-tokens, 40-requests, 30min or 2h.",
  );
}

/** 20-requests, 100k-tokens; several options make one limit. */
export function parsePerMinute(text: string, before: PerMinute = {}): PerMinute {
  const parsed = PerMinute.safeParse(parseBudget(text, before));
  if (parsed.success) return parsed.data;
  throw new InvalidArgumentError("A limit by the minute is a number such as 20-requests or 100k-tokens.");
}

export function parsePort(text: string): number {
  return portFrom(0, text);
}

/** A port of a program that listens. */
export function parseOpenPort(text: string): number {
  return portFrom(1, text);
}

function portFrom(lowest: number, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) >= lowest && Number(text) <= 65_535) return Number(text);
  throw new InvalidArgumentError(`A port is a number from ${lowest} to 65535.`);
}

function amountOf(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const [, count = "", unit = ""] = /^(\d+(?:\.\d+)?)([A-Za-z]+)$/.exec(text) ?? [];
  const amount = Object.hasOwn(units, unit) ? Math.round(Number(count) * (units[unit] ?? 0)) : 0;
  return amount > 0 && Number.isSafeInteger(amount) ? amount : undefined;
}

/** 1 file, 2 files. */
export function toCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
