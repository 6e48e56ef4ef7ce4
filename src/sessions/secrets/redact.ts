import { findStringEnd, type SessionSpec } from "../../contract/index.ts";
import { wholeCharacters } from "../../spool/index.ts";

export type Redact = (text: string) => string;

/** Removes known secret values from text. Deterministic: the same text and secrets give the same result. */
export interface Redactor {
  /** Redacts any text. */
  readonly text: Redact;
  /**
   * Redacts a line of an agent. In JSON it changes string values only, and no words of the protocol: numbers are not
   * secrets, and JSON stays JSON.
   */
  readonly line: Redact;
  /** The number of bytes at the end that may begin a secret. They have to wait for the bytes after them. */
  held(bytes: Buffer): number;
  /** Redacts a text that was cut off, with the beginning of a secret at its end. */
  readonly cut: Redact;
  /** The length of the longest secret in bytes. */
  readonly reach: number;
}

const SHORTEST_SECRET = 6;
/** Each line of a secret of many lines, such as a PEM key, is a secret. */
const SHORTEST_LINE = 16;
const SECRET_NAME = /key|token|secret|password|credential|authorization/i;

interface Form {
  readonly text: string;
  readonly bytes: Buffer;
  readonly label: string;
}

export function createRedactor(secrets: ReadonlyMap<string, string>): Redactor {
  const forms = toForms(secrets);
  if (forms.length === 0) return { text: same, line: same, held: () => 0, cut: same, reach: 0 };
  const text: Redact = (given) => {
    let clean = given;
    for (const form of forms) if (clean.includes(form.text)) clean = clean.replaceAll(form.text, form.label);
    return clean;
  };
  const held = (bytes: Buffer): number => heldOf(bytes, forms);
  return {
    text,
    line: (given) => redactLine(given, forms, text),
    held,
    cut: (given) => {
      const bytes = Buffer.from(text(given));
      return bytes.subarray(0, bytes.length - held(bytes)).toString("utf8");
    },
    reach: Math.max(...forms.map(({ bytes }) => bytes.length)),
  };
}

const same: Redact = (text) => text;

/** For a session whose secrets cannot be read. */
export const withhold: Redact = (text) =>
  text === "" ? "" : "[withheld: the session's secrets are not known]";

/** A secret in its forms: plain, escaped as in JSON, and escaped as in JSON within JSON. */
function toForms(secrets: ReadonlyMap<string, string>): Form[] {
  const forms = new Map<string, string>();
  for (const [name, value] of secrets) {
    const lines = value.split("\n").filter((line) => line !== value && line.length >= SHORTEST_LINE);
    for (const plain of [value, ...lines]) {
      if (plain.length < SHORTEST_SECRET) continue;
      for (const form of [plain, escaped(plain), escaped(escaped(plain))])
        if (!forms.has(form)) forms.set(form, `[redacted:${name}]`);
    }
  }
  return (
    [...forms]
      .map(([text, label]) => ({ text, label, bytes: Buffer.from(text) }))
      // The longest first: a secret may contain another one.
      .toSorted((a, b) => b.text.length - a.text.length)
  );
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function redactLine(line: string, forms: readonly Form[], text: Redact): string {
  const isHit = forms.some((form) => line.includes(form.text));
  // Only these two escapes can spell a character differently from `JSON.stringify`.
  const isVeiled = line.includes("\\u") || line.includes("\\/");
  if (!isHit && !isVeiled) return line;
  if (!isJson(line)) return isHit ? text(line) : line;
  return redactStrings(line, text);
}

function isJson(line: string): boolean {
  if (!line.startsWith("{") && !line.startsWith("[")) return false;
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** Keys whose value is the kind of a line. */
const PROTOCOL_KEYS: ReadonlySet<string> = new Set(
  "type subtype method event role status kind stop_reason stopReason sessionUpdate".split(" "),
);
const PROTOCOL_WORD = /^[A-Za-z]+(?:[._/-][A-Za-z]+)*$/;

/** Redacts each string value where it is. The rest stays unchanged. */
function redactStrings(json: string, redact: Redact): string {
  let clean = "";
  let done = 0;
  let key = { name: "", end: 0 };
  for (let at = json.indexOf('"'); at !== -1;) {
    const end = findStringEnd(json, at) + 1;
    const next = json.indexOf('"', end);
    if (isKey(json, end)) key = { name: json.slice(at + 1, end - 1), end };
    else {
      const value = JSON.parse(json.slice(at, end)) as string;
      // A variable such as KEYRING_BACKEND may have a word of the protocol as its value.
      const isProtocol =
        PROTOCOL_KEYS.has(key.name) && PROTOCOL_WORD.test(value) && /^\s*:\s*$/.test(json.slice(key.end, at));
      const told = isProtocol ? value : redact(value);
      if (told !== value) {
        clean += json.slice(done, at) + JSON.stringify(told);
        done = end;
      }
    }
    at = next;
  }
  return done === 0 ? json : clean + json.slice(done);
}

function isKey(json: string, end: number): boolean {
  for (let at = end; ; at += 1) {
    const code = json.charCodeAt(at);
    if (code !== 0x20 && code !== 0x09 && code !== 0x0d) return code === 0x3a;
  }
}

function heldOf(bytes: Buffer, forms: readonly Form[]): number {
  let held = 0;
  for (const { bytes: form } of forms) {
    for (let length = Math.min(form.length - 1, bytes.length); length > held; length -= 1) {
      if (bytes.subarray(bytes.length - length).equals(form.subarray(0, length))) held = length;
    }
  }
  return bytes.length - beforeSecret(bytes, bytes.length - held, forms);
}

/** The most bytes of secrets that overlap each other. A longer row of them, such as one repeated letter, is cut. */
const MOST_OVERLAP = 64 * 1024;

/** The position; if it would cut a secret, the beginning of that secret, and of those that overlap it. */
function beforeSecret(bytes: Buffer, place: number, forms: readonly Form[]): number {
  let start = place;
  for (let before = -1; before !== start && place - start < MOST_OVERLAP;) {
    before = start;
    for (const { bytes: form } of forms) {
      const at = bytes.indexOf(form, Math.max(0, start - form.length + 1));
      if (at !== -1 && at < start) start = at;
    }
  }
  return start;
}

/** Whether a value of this name is secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** The secrets in a session's spec, by name. */
export function secretsOf(spec: SessionSpec): Map<string, string> {
  const secrets = new Map<string, string>();
  collect(spec.env ?? {}, secrets);
  for (const server of Object.values(spec.mcp ?? {})) {
    collect(("env" in server ? server.env : undefined) ?? {}, secrets);
    collect(("headers" in server ? server.headers : undefined) ?? {}, secrets);
  }
  return secrets;
}

function collect(values: Record<string, string>, into: Map<string, string>): void {
  for (const [name, value] of Object.entries(values)) {
    if (!isSecretName(name)) continue;
    into.set(name, value);
    // "Bearer x" must not survive as "x".
    const bare = /^\S+\s+(\S+)$/.exec(value)?.[1];
    if (bare !== undefined) into.set(`${name} value`, bare);
  }
}

/** The log stores longer strings outside of its events. */
const PIECE_BYTES = 30_000;

/** A growing stream of bytes as redacted text. It holds back half a character and the beginning of a secret. */
export class RedactedStream {
  readonly #redactor: Redactor;
  #held: Buffer = Buffer.alloc(0);
  /** The bytes of the stream that were released. */
  #offset: number;

  constructor(options: { redactor: Redactor; offset: number }) {
    this.#redactor = options.redactor;
    this.#offset = options.offset;
  }

  /** The next pieces of text. Bytes that are held back come with later bytes, or at the end. */
  take(bytes: Uint8Array, { isLast }: { isLast: boolean }): { text: string; offset: number }[] {
    const all = this.#held.length === 0 ? Buffer.from(bytes) : Buffer.concat([this.#held, bytes]);
    const end = isLast ? all.length : this.#releasable(all);
    this.#held = all.subarray(end);
    const pieces: { text: string; offset: number }[] = [];
    for (let from = 0; from < end;) {
      const to = this.#pieceEnd(all, from, end);
      this.#offset += to - from;
      pieces.push({ text: this.#redactor.text(all.toString("utf8", from, to)), offset: this.#offset });
      from = to;
    }
    return pieces;
  }

  #releasable(bytes: Buffer): number {
    const whole = wholeCharacters(bytes);
    return whole - this.#redactor.held(bytes.subarray(0, whole));
  }

  /** At most `PIECE_BYTES`, after a newline where there is one. */
  #pieceEnd(bytes: Buffer, from: number, end: number): number {
    const to = Math.min(from + PIECE_BYTES, end);
    if (to === end) return end;
    const newline = bytes.subarray(from, to).lastIndexOf(10);
    const cut = newline > 0 ? from + newline + 1 : wholeCharacters(bytes, to);
    const held = this.#redactor.held(bytes.subarray(from, cut));
    return cut - held > from ? cut - held : end;
  }
}
