import { createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { Transform, type TransformCallback } from "node:stream";
import type { LentSecret } from "../../../contract/process.ts";
import { judge } from "../allow-list.ts";
import type { LentSettings } from "../protocol.ts";
import { Scrubber, ScrubStream, scrubText } from "./scrubber.ts";
import { SecretForms, toJsonText } from "./secret-forms.ts";

type LenderOptions = Omit<LentSettings, "authority">;

const FRESH_MS = 1_000;
const PATIENCE_MS = 3_000;

/** The most entries that are kept in memory. */
const MOST_LENT = 256;
const MOST_FORMS = 32;

/** The secrets that are lent to this sandbox, and the hosts that they may go to. */
export class Lender {
  readonly #options: LenderOptions;
  #current: readonly LentSecret[] = [];
  /** All secrets so far, current or former: a host may send a value back after it was changed. */
  readonly #lent = new Map<string, LentSecret>();
  readonly #forms = new Map<string, SecretForms>();
  readonly #addresses = new Set<string>();
  #asked = 0;
  #asking: Promise<void> | undefined;

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** The substitution for a host; undefined where no secret, current or former, may go there. */
  async for(host: string, port: number): Promise<Substitution | undefined> {
    if (Date.now() - this.#asked >= FRESH_MS) await (this.#asking ??= this.#ask());
    const isOwn = judge({ patterns: this.#options.own }, host, port) !== "refused";
    const isFor = ({ hosts }: LentSecret): boolean =>
      hosts === undefined ? !isOwn : hosts.some((entry) => matchesHost(entry.toLowerCase(), host));
    const lent = [...this.#lent.values()].filter(isFor);
    if (lent.length === 0) return undefined;
    return new Substitution(this.#current.filter(isFor), this.#formsOf(lent));
  }

  /** Remembers the address of a host that secrets may go to. */
  remember(address: string | undefined, port: number): void {
    this.#addresses.add(`${address} ${port}`);
  }

  /** Whether an address was remembered; false for the harness's own hosts. */
  isKnown(address: string, port: number): boolean {
    if (judge({ patterns: this.#options.own }, address, port) !== "refused") return false;
    return this.#addresses.has(`${address} ${port}`);
  }

  #formsOf(secrets: readonly LentSecret[]): SecretForms {
    const unique = new Map(secrets.map(({ placeholder, value }) => [value, { placeholder, value }]));
    const key = JSON.stringify([...unique.values()]);
    const forms = this.#forms.get(key) ?? new SecretForms([...unique.values()]);
    if (this.#forms.size >= MOST_FORMS) this.#forms.clear();
    this.#forms.set(key, forms);
    return forms;
  }

  /** Asks the server for the secrets. While it does not answer, its last answer stays valid. */
  async #ask(): Promise<void> {
    const { url, token } = this.#options.lending;
    const nonce = randomBytes(16).toString("hex");
    try {
      const answer = await fetch(url, {
        headers: { "sluice-nonce": nonce, authorization: `Bearer ${toHmac(token, nonce).toString("hex")}` },
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      if (answer.ok) this.#learn(decrypt(Buffer.from(await answer.arrayBuffer()), token, nonce));
    } catch {
      // No server, or another program on its port.
    } finally {
      this.#asked = Date.now();
      this.#asking = undefined;
    }
  }

  #learn(secrets: readonly LentSecret[]): void {
    this.#current = secrets;
    for (const secret of secrets) {
      const key = JSON.stringify(secret);
      this.#lent.delete(key);
      this.#lent.set(key, secret);
    }
    for (const key of this.#lent.keys()) {
      if (this.#lent.size <= MOST_LENT) return;
      this.#lent.delete(key);
    }
  }
}

/** The token itself is never sent, so another program on the server's port can neither learn it nor answer. */
function decrypt(encrypted: Buffer, token: string, nonce: string): LentSecret[] {
  const decipher = createDecipheriv("aes-256-gcm", toHmac(token, "answer"), encrypted.subarray(0, 12));
  decipher.setAAD(Buffer.from(nonce)).setAuthTag(encrypted.subarray(12, 28));
  const text = Buffer.concat([decipher.update(encrypted.subarray(28)), decipher.final()]).toString("utf8");
  return (JSON.parse(text) as { secrets: LentSecret[] }).secrets;
}

function toHmac(token: string, text: string): Buffer {
  return createHmac("sha256", token).update(text).digest();
}

function matchesHost(entry: string, host: string): boolean {
  return entry.startsWith("*.") ? isIP(host) === 0 && host.endsWith(entry.slice(1)) : entry === host;
}

/** Replaces placeholders by secrets in the requests to one host, and secrets by placeholders in its answers. */
export class Substitution {
  /** The secrets that may go to the host now. */
  readonly #secrets: readonly LentSecret[];
  /** The forms of every secret that the host may know. */
  readonly #forms: SecretForms;

  constructor(secrets: readonly LentSecret[], forms: SecretForms) {
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
  hasPlaceholder(headers: Headers): boolean {
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
