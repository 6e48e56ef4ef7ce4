import { findStringEnd } from "../contract/json.ts";
import type { SessionSpec } from "../contract/index.ts";

export type Redact = (text: string) => string;

/** Takes known secret values out of what is going to be told. Deterministic: the same text and secrets give the same text. */
export interface Redactor {
  /** Of any text. */
  readonly text: Redact;
  /** Of one line of an agent. In JSON only the strings are touched, and no keys: numbers are no secrets, and JSON stays JSON. */
  readonly line: Redact;
  /** How many bytes at the end may be the beginning of a secret: they wait for what follows. */
  held(bytes: Buffer): number;
  /** Of a text whose rest nobody will see: without a secret's beginning at its end. */
  readonly cut: Redact;
  /** The bytes of the longest secret. */
  readonly reach: number;
}

const SHORTEST_SECRET = 6;
/** Of a secret of many lines, such as a key in PEM, each line is one. */
const SHORTEST_LINE = 16;
const SECRET_NAME = /key|token|secret|password|credential|authorization/i;

interface Form {
  readonly text: string;
  readonly bytes: Buffer;
  readonly label: string;
}

export function createRedact(secrets: ReadonlyMap<string, string>): Redact {
  return createRedactor(secrets).text;
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

/** A secret as it is, and escaped as in a string of JSON, once and in JSON within JSON. */
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
      // A secret may hold another one.
      .toSorted((a, b) => b.text.length - a.text.length)
  );
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function redactLine(line: string, forms: readonly Form[], text: Redact): string {
  const isHit = forms.some((form) => line.includes(form.text));
  // Every other escape is written in one way only.
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

/** Each string by itself, where it stands: all the rest stays letter for letter. */
function redactStrings(json: string, redact: Redact): string {
  let clean = "";
  let done = 0;
  for (let at = json.indexOf('"'); at !== -1;) {
    const end = findStringEnd(json, at) + 1;
    const next = json.indexOf('"', end);
    if (!isKey(json, end)) {
      const value = JSON.parse(json.slice(at, end)) as string;
      const told = redact(value);
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

/** The place, or where the secret begins that it would cut in two. */
function beforeSecret(bytes: Buffer, place: number, forms: readonly Form[]): number {
  for (const { bytes: form } of forms) {
    const at = bytes.indexOf(form, Math.max(0, place - form.length + 1));
    if (at !== -1 && at < place) return beforeSecret(bytes, at, forms);
  }
  return place;
}

/** Whether what has this name is to be kept from events. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** The secrets that a session was given, by name. */
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
