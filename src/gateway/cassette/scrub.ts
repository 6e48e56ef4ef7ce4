import { type Chunk, toBytes, toChunk } from "./format.ts";
import type { RecordedFolder } from "../desk.ts";
import type { Scrub } from "./mask.ts";

/** Patterns of private data that is in no list of known values. */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [
    /-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,20000}-----END [A-Z ]*PRIVATE KEY-----/g,
    "[key]",
  ],
  [/\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}/g, "[key]"],
  [/\b(?:gh[oprsu]_|github_pat_|glpat-|xai-|gsk_|xox[abprs]-|npm_|hf_)[A-Za-z0-9_-]{16,}/g, "[key]"],
  [/\bAIza[A-Za-z0-9_-]{30,}/g, "[key]"],
  [/\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g, "[key]"],
  [/\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/g, "[key]"],
  [/\bsess_[0-9a-f]{48}\b/g, "[key]"],
  [
    /(?<![\w.+-])(?!git@|user@example\.com)[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,24}\b/g,
    "user@example.com",
  ],
];

/** Replaces private data by its patterns. Neither side of a replacement has a character that JSON escapes. */
export function scrubPatterns(text: string): string {
  return PATTERNS.reduce((clean, [pattern, to]) => clean.replace(pattern, to), text);
}

/** Scrubs by values first, then by patterns. */
export function withPatterns(values: Scrub): Scrub {
  return (bytes) => {
    const clean = values(bytes).toString("latin1");
    return Buffer.from(scrubPatterns(clean), "latin1");
  };
}

/** Gives the agent's folders the names that a cassette has for them, or those that they have here. */
export function moveFolders(folders: readonly RecordedFolder[], to: "recorded" | "here"): Scrub {
  const from = to === "here" ? "recorded" : "here";
  const names = new Map(folders.map((folder) => [toLatin(folder[from]), toLatin(folder[to])]));
  if (names.size === 0) return (bytes) => bytes;
  const pattern = toPathPattern([...names.keys()]);
  return (bytes) => {
    const text = bytes.toString("latin1");
    const moved = text.replace(pattern, (path) => names.get(path) ?? path);
    return moved === text ? bytes : Buffer.from(moved, "latin1");
  };
}

/**
 * Whole paths, or the beginnings of such. One pass for all of them: a new name may contain another's old one. In JSON an
 * escape such as \n may stand before a path.
 */
function toPathPattern(paths: readonly string[]): RegExp {
  const longestFirst = paths.toSorted((one, other) => other.length - one.length);
  const plain = longestFirst.map((path) => path.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`));
  return new RegExp(String.raw`(?:(?<![\w.~/-])|(?<=\\[nrt]))(?:${plain.join("|")})(?![\w-])`, "g");
}

function toLatin(path: string): string {
  return Buffer.from(path).toString("latin1");
}

/** The chunks of an answer without private data. A chunk border inside of a changed event moves to the event's end. */
export function scrubChunks(
  chunks: readonly Chunk[],
  { scrub, isStream }: { scrub: Scrub; isStream: boolean },
): Chunk[] {
  const bytes = chunks.map(toBytes);
  const whole = Buffer.concat(bytes);
  const parts = isStream ? splitEvents(whole) : [whole];
  const clean = scrubEvents(parts, scrub);
  if (parts.every((part, at) => part === clean[at])) return [...chunks];
  const borders = toBorders(parts, clean);
  const text = Buffer.concat(clean);
  let [from, before] = [0, 0];
  return chunks.map(([ms], at) => {
    before += (bytes[at] as Buffer).length;
    const to = borders(before);
    const piece = text.subarray(from, to);
    from = to;
    return toChunk(ms, piece);
  });
}

/** Maps a position of the original to one of the result. */
function toBorders(parts: readonly Buffer[], clean: readonly Buffer[]): (at: number) => number {
  return (at) => {
    let [left, right] = [0, 0];
    for (const [index, part] of parts.entries()) {
      const now = clean[index] as Buffer;
      if (at < left + part.length)
        return at === left ? right : part === now ? right + at - left : right + now.length;
      left += part.length;
      right += now.length;
    }
    return right;
  };
}

/** Server-sent events, each with the blank line behind it. */
function splitEvents(whole: Buffer): Buffer[] {
  const text = whole.toString("latin1");
  const parts: Buffer[] = [];
  let from = 0;
  for (const { index, 0: end } of text.matchAll(/\r\n\r\n|\n\n|\r\r/g)) {
    parts.push(whole.subarray(from, index + end.length));
    from = index + end.length;
  }
  if (from < whole.length) parts.push(whole.subarray(from));
  return parts;
}

interface Piece {
  readonly holder: Record<string, unknown>;
  readonly name: string;
  readonly event: number;
}

/** Scrubs each event, and then the texts that are split over several events. An unchanged event is the same object. */
function scrubEvents(events: readonly Buffer[], scrub: Scrub): Buffer[] {
  const clean = events.map((event) => {
    const scrubbed = scrub(event);
    return scrubbed.equals(event) ? event : scrubbed;
  });
  const parsed = clean.map(parseData);
  const texts = new Map<string, Piece[]>();
  for (const [event, data] of parsed.entries()) if (data !== undefined) collect(data, event, texts);
  const changed = new Set<number>();
  for (const pieces of texts.values()) {
    if (pieces.length < 2) continue;
    const joined = pieces.map(({ holder, name }) => holder[name] as string).join("");
    const scrubbed = scrub(Buffer.from(joined)).toString("utf8");
    if (scrubbed === joined) continue;
    // The first delta has the whole text then, and the others nothing.
    for (const [at, { holder, name, event }] of pieces.entries()) {
      holder[name] = at === 0 ? scrubbed : "";
      changed.add(event);
    }
  }
  return clean.map((event, at) => (changed.has(at) ? withData(event, parsed[at]) : event));
}

/** Texts that grow over several events, by their place and by the ids of the block that they belong to. */
function collect(data: Record<string, unknown>, event: number, texts: Map<string, Piece[]>): void {
  const ids = ["index", "output_index", "content_index", "item_id", "type"].map((name) =>
    String(data[name] ?? ""),
  );
  const walk = (holder: Record<string, unknown>, path: string, isDelta: boolean): void => {
    for (const [name, value] of Object.entries(holder)) {
      // Calls of several tools stream side by side, each with its own number.
      const number = (value as { index?: unknown } | null)?.index;
      const place = `${path}/${name}${typeof number === "number" ? `#${number}` : ""}`;
      const isPart = isDelta || name === "delta" || /\/parts\/\d+\/text$/.test(place);
      if (typeof value === "object" && value !== null) walk(value as Record<string, unknown>, place, isPart);
      else if (typeof value === "string" && isPart && !PLAIN.has(name)) {
        const group = `${ids.join("\n")}\n${place}`;
        const pieces = texts.get(group) ?? [];
        pieces.push({ holder, name, event });
        texts.set(group, pieces);
      }
    }
  };
  walk(data, "", false);
}

const PLAIN = new Set(["type", "role", "id", "call_id", "item_id", "stop_reason", "finish_reason"]);

/** The JSON of an event with one line of data, as all providers send it. */
function parseData(event: Buffer): Record<string, unknown> | undefined {
  const text = /^data: ?(.*)$/m.exec(event.toString("utf8"))?.[1];
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function withData(event: Buffer, data: unknown): Buffer {
  const json = JSON.stringify(data);
  return Buffer.from(event.toString("utf8").replace(/^(data: ?).*$/m, (_, prefix: string) => prefix + json));
}
