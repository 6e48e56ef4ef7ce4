import { Transform, type TransformCallback } from "node:stream";
import type { LentSecret } from "../../../contract/launch.ts";
import { Scrubber, ScrubStream, scrubText } from "./scrubber.ts";
import { SecretForms, toJsonText } from "./secret-forms.ts";

interface SubstitutionOptions {
  /** The secrets that may go to the host now. */
  readonly secrets: readonly LentSecret[];
  /** The forms of every secret that the host may know. */
  readonly forms: SecretForms;
}

/** Replaces placeholders by secrets in the requests to one host, and secrets by placeholders in its answers. */
export class Substitution {
  readonly #secrets: readonly LentSecret[];
  readonly #forms: SecretForms;

  constructor({ secrets, forms }: SubstitutionOptions) {
    this.#secrets = secrets;
    this.#forms = forms;
  }

  /** The headers with secrets in place of placeholders. */
  inHeaders(headers: Headers): Headers {
    const secrets = this.#secrets.filter(({ header }) => header);
    const put = (text: string): string => putAll(text, secrets);
    return mapHeaders(headers, (name, value) =>
      NEVER_SECRET.test(name) ? value : (toBasic(value, put) ?? put(value)),
    );
  }

  /** Whether a header holds a placeholder that would be replaced. */
  isMeantIn(headers: Headers): boolean {
    const put = this.inHeaders(headers);
    return Object.entries(headers).some(([name, values]) =>
      values.some((value, at) => put[name]?.[at] !== value),
    );
  }

  /** The replacements for a body of this type; none if no secret may go into a body. */
  inBody(contentType: string): Replacement[] {
    const isJson = /[/+]json\b/i.test(contentType);
    return this.#secrets
      .filter(({ body }) => body)
      .map(({ placeholder, value }) => [
        Buffer.from(placeholder),
        Buffer.from(isJson ? toJsonText(value) : value),
      ]);
  }

  /** Scrubs a text of the host's answer, which may return secrets of this request or an earlier one. */
  scrub(text: string): string {
    return scrubText(this.#forms, text);
  }

  /** Scrubs the headers of the host's answer. A header with a secret in its name is left out. */
  scrubHeaders(headers: Headers, rawNames: readonly string[]): Headers {
    const bad = new Set(
      rawNames.filter((name) => this.scrub(name) !== name).map((name) => name.toLowerCase()),
    );
    const good = Object.entries(headers).filter(([name]) => !bad.has(name));
    return mapHeaders(Object.fromEntries(good), (_name, value) => this.scrub(value));
  }

  createScrubber(): Scrubber {
    return new Scrubber(this.#forms);
  }

  createStream(options?: { idleMs?: number }): ScrubStream {
    return new ScrubStream(this.#forms, options);
  }
}

/** Headers that never carry a key. Their values are logged, cached, shown to others, or read by proxies. */
const NEVER_SECRET =
  /^(accept|accept-.*|content-.*|transfer-encoding|host|user-agent|referer|origin|via|from|date|forwarded|x-forwarded-.*|x-real-ip|x-original-.*|x-rewrite-url|range|if-.*|cache-control|sec-websocket-(key|version|extensions))$/;

function mapHeaders(headers: Headers, map: (name: string, value: string) => string): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, values]) => [name, values.map((value) => map(name, value))]),
  );
}

function putAll(text: string, secrets: readonly Pick<LentSecret, "placeholder" | "value">[]): string {
  return secrets.reduce((put, { placeholder, value }) => put.replaceAll(placeholder, () => value), text);
}

/** Replaces placeholders in Basic credentials, which curl and git encode in base64; undefined if there is none. */
function toBasic(header: string, put: (text: string) => string): string | undefined {
  const [, scheme, coded] = /^(basic) +([A-Za-z0-9+/=_-]+)$/i.exec(header) ?? [];
  if (scheme === undefined || coded === undefined) return undefined;
  const text = Buffer.from(coded, "base64").toString("utf8");
  const after = put(text);
  return after === text ? undefined : `${scheme} ${Buffer.from(after).toString("base64")}`;
}

/** A byte sequence, and its replacement. */
type Replacement = readonly [from: Buffer, to: Buffer];

/** Replaces byte sequences in a stream, even across chunks. Holds back only bytes that may begin such a sequence. */
export class ReplaceStream extends Transform {
  readonly #replacements: readonly Replacement[];
  #held: Buffer = Buffer.alloc(0);

  constructor(replacements: readonly Replacement[]) {
    super();
    this.#replacements = replacements;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let rest = Buffer.concat([this.#held, chunk]);
    for (let found = this.#findFirst(rest); found !== undefined; found = this.#findFirst(rest)) {
      this.push(Buffer.concat([rest.subarray(0, found.at), found.to]));
      rest = rest.subarray(found.at + found.from.length);
    }
    const safe = this.#replacements.reduce(
      (least, [from]) => Math.min(least, beginningOf(from, rest)),
      rest.length,
    );
    if (safe > 0) this.push(rest.subarray(0, safe));
    this.#held = rest.subarray(safe);
    done();
  }

  override _flush(done: TransformCallback): void {
    if (this.#held.length > 0) this.push(this.#held);
    done();
  }

  #findFirst(text: Buffer): { at: number; from: Buffer; to: Buffer } | undefined {
    let first: { at: number; from: Buffer; to: Buffer } | undefined;
    for (const [from, to] of this.#replacements) {
      const at = text.indexOf(from);
      if (at >= 0 && (first === undefined || at < first.at)) first = { at, from, to };
    }
    return first;
  }
}

/** The position where the text's end may begin the word; the text's length if it does not. */
function beginningOf(word: Buffer, text: Buffer): number {
  const from = Math.max(0, text.length - word.length + 1);
  for (let at = text.indexOf(word[0] ?? 0, from); at >= 0; at = text.indexOf(word[0] ?? 0, at + 1)) {
    if (text.subarray(at).equals(word.subarray(0, text.length - at))) return at;
  }
  return text.length;
}

export type Headers = Record<string, string[]>;
