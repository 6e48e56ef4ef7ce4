import type { LentSecret } from "../../../contract/launch.ts";
import type { Headers } from "./headers.ts";
import type { Replacement } from "./replaceStream.ts";
import { ScrubStream, Scrubber, scrubText } from "./scrubber.ts";
import { SecretForms, toJsonText } from "./secretForms.ts";

export interface SubstitutionOptions {
  /** What may go to the host now. */
  readonly secrets: readonly LentSecret[];
  /** The forms of all that may have gone there. */
  readonly forms: SecretForms;
}

/** What is put in the place of placeholders in the requests to one host, and taken out of its answers. */
export class Substitution {
  readonly #secrets: readonly LentSecret[];
  readonly #forms: SecretForms;

  constructor({ secrets, forms }: SubstitutionOptions) {
    this.#secrets = secrets;
    this.#forms = forms;
  }

  /** The same headers, with the values. */
  inHeaders(headers: Headers): Headers {
    const secrets = this.#secrets.filter(({ header }) => header);
    const put = (text: string): string => putAll(text, secrets);
    return mapHeaders(headers, (name, value) =>
      NEVER_SECRET.test(name) ? value : (toBasic(value, put) ?? put(value)),
    );
  }

  /** Whether a header holds a placeholder whose value would be put there. */
  isMeantIn(headers: Headers): boolean {
    const put = this.inHeaders(headers);
    return Object.entries(headers).some(([name, values]) =>
      values.some((value, at) => put[name]?.[at] !== value),
    );
  }

  /** For a body of this type; none where the body is to be left alone. */
  inBody(contentType: string): Replacement[] {
    const isJson = /[/+]json\b/i.test(contentType);
    return this.#secrets
      .filter(({ body }) => body)
      .map(({ placeholder, value }) => [
        Buffer.from(placeholder),
        Buffer.from(isJson ? toJsonText(value) : value),
      ]);
  }

  /** For what a host sends back: it may send what it was sent, now or before. */
  scrub(text: string): string {
    return scrubText(this.#forms, text);
  }

  /** A header whose name holds a secret is left out. */
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

/** No key belongs there: such values are logged, cached, shown to others, or read by proxies. */
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

/** `curl -u` and git hide what they send in base64. */
function toBasic(header: string, put: (text: string) => string): string | undefined {
  const [, scheme, coded] = /^(basic) +([A-Za-z0-9+/=_-]+)$/i.exec(header) ?? [];
  if (scheme === undefined || coded === undefined) return undefined;
  const text = Buffer.from(coded, "base64").toString("utf8");
  const after = put(text);
  return after === text ? undefined : `${scheme} ${Buffer.from(after).toString("base64")}`;
}
