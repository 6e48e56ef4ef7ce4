import { createHash } from "node:crypto";

/** Removes secrets and private data from bytes. */
export type Scrub = (bytes: Buffer) => Buffer;

export interface MaskedRequest {
  readonly key: string;
  readonly shape: unknown;
}

/** Places of a body that differ between two equal runs of a CLI: `*` is each entry of a list. */
const VOLATILE: readonly (readonly string[])[] = [
  ["metadata", "user_id"],
  ["prompt_cache_key"],
  ["client_metadata"],
  ["input", "*", "id"],
];

/** Parts of texts that differ between two equal runs: ids, and what some tools print with their output. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<uuid>"],
  [/\bsess_[0-9a-f]{48}\b/g, "<token>"],
  [/\b(Chunk ID: )\w+/g, "$1<id>"],
  [/\b(Wall time: )[\d.]+/g, "$1<time>"],
  [/\b(Process Group PGID: )\d+/g, "$1<id>"],
  [/\b(OS Version: )[^\n]*/g, "$1<os>"],
];

/** The key and the shape of a request. Its text is in neither. */
export function maskRequest(
  { method, path, body }: { method: string; path: string; body: Buffer },
  { scrub, now }: { scrub: Scrub; now: number },
): MaskedRequest {
  const patterns = [...PATTERNS, ...toToday(now)];
  const value = toValue(scrub(body), patterns);
  const text = `${method} ${path}\n${typeof value === "string" ? value : toCanonical(value)}`;
  return { key: sha256(text), shape: toShape(value, []) };
}

/** The JSON of a body with its volatile places masked; the masked text of a body that is no JSON. */
function toValue(body: Buffer, patterns: typeof PATTERNS): unknown {
  const text = body.toString("utf8");
  try {
    return mask(JSON.parse(text), [], patterns);
  } catch {
    // No JSON, or nested too deeply to be walked.
    return maskText(text, patterns);
  }
}

function mask(value: unknown, path: readonly string[], patterns: typeof PATTERNS): unknown {
  if (typeof value === "string") return maskText(value, patterns);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((entry) => mask(entry, [...path, "*"], patterns));
  const kept = Object.entries(value).filter(([name]) => !isVolatile([...path, name]));
  const masked = kept.map(([name, entry]) => [name, mask(entry, [...path, name], patterns)]);
  return Object.fromEntries(masked);
}

function isVolatile(path: readonly string[]): boolean {
  return VOLATILE.some(
    (place) => place.length === path.length && place.every((name, at) => name === path[at]),
  );
}

function maskText(text: string, patterns: typeof PATTERNS): string {
  return patterns.reduce((masked, [pattern, to]) => masked.replace(pattern, to), text);
}

/** The current date in the forms in which CLIs tell it to their model, here and in UTC. Other dates are content. */
function toToday(now: number): readonly (readonly [RegExp, string])[] {
  // Some time zones begin their day at half past.
  const half = Math.floor(now / 1_800_000);
  if (made?.half !== half) made = { half, patterns: buildToday(new Date(now)) };
  return made.patterns;
}

let made: { half: number; patterns: [RegExp, string][] } | undefined;

function buildToday(date: Date): [RegExp, string][] {
  const forms = ["UTC", undefined].flatMap((timeZone) => {
    const zone = timeZone === undefined ? {} : { timeZone };
    const as = (options: Intl.DateTimeFormatOptions): string =>
      new Intl.DateTimeFormat("en-US", { ...zone, ...options }).format(date);
    const [weekday, month, short, day, year] = [
      as({ weekday: "long" }),
      as({ month: "long" }),
      as({ month: "short" }),
      as({ day: "2-digit" }),
      as({ year: "numeric" }),
    ];
    return [
      `${year}-${as({ month: "2-digit" })}-${day}`,
      `${weekday}, ${month} ${Number(day)}, ${year}`,
      `${weekday.slice(0, 3)} ${short} ${day} ${year}`,
      `${month} ${Number(day)}, ${year}`,
      as({ month: "numeric", day: "numeric", year: "numeric" }),
    ];
  });
  // The longest first: one contains another.
  const unique = [...new Set(forms)].toSorted((a, b) => b.length - a.length);
  return unique.map((form) => [new RegExp(`(?<![\\w/-])${form}(?![\\w/-])`, "g"), "<today>"]);
}

function toCanonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(toCanonical).join(",")}]`;
  const names = Object.keys(value).toSorted();
  const fields = names.map(
    (name) => `${JSON.stringify(name)}:${toCanonical((value as Record<string, unknown>)[name])}`,
  );
  return `{${fields.join(",")}}`;
}

const DEEPEST = 9;
/** Names whose values are words of the API, and not of the user. */
const PLAIN = new Set(["type", "role", "model"]);

function toShape(value: unknown, path: readonly string[]): unknown {
  if (typeof value === "string") {
    const isPlain = PLAIN.has(path.at(-1) ?? "") && /^[\w.:/@-]{1,80}$/.test(value);
    return isPlain ? value : toMark(value);
  }
  if (typeof value !== "object" || value === null) return value;
  // A tool's schema is long, and the same in each request.
  const isFolded = path.length >= DEEPEST || (path[0] === "tools" && path.length >= 2);
  if (isFolded) return toMark(toCanonical(value));
  if (Array.isArray(value)) return value.map((entry, at) => toShape(entry, [...path, String(at)]));
  return Object.fromEntries(
    Object.entries(value).map(([name, entry]) => [name, toShape(entry, [...path, name])]),
  );
}

function toMark(text: string): string {
  return `#${sha256(text).slice(0, 12)}`;
}

export function sha256(text: string | Buffer): string {
  return createHash("sha256").update(text).digest("hex");
}

export interface Difference {
  /** The JSON pointer of the first place that differs. */
  readonly path: string;
  readonly count: number;
}

/** The places in which two shapes differ; undefined where they are equal. */
export function compareShapes(one: unknown, other: unknown): Difference | undefined {
  let first: string | undefined;
  let count = 0;
  const walk = (a: unknown, b: unknown, path: string): void => {
    if (isNested(a) && isNested(b) && Array.isArray(a) === Array.isArray(b)) {
      const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
      for (const name of new Set([...Object.keys(left), ...Object.keys(right)]))
        walk(left[name], right[name], `${path}/${toSegment(name)}`);
      return;
    }
    if (a === b) return;
    first ??= path;
    count += 1;
  };
  walk(one, other, "");
  return first === undefined ? undefined : { path: first === "" ? "/" : first, count };
}

/** A name that an agent chose may be anything. */
function toSegment(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? name : "?";
}

function isNested(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}
