import type { LentSecret } from "../../../contract/launch.ts";
import type { Replacement } from "./replaceStream.ts";

type Headers = Record<string, string[]>;

/** What is put in the place of placeholders in the requests to one host. */
export class Substitution {
  readonly #secrets: readonly LentSecret[];

  constructor(secrets: readonly LentSecret[]) {
    this.#secrets = secrets;
  }

  /** The same headers, or undefined where none of them holds a placeholder. */
  inHeaders(headers: Headers): Headers | undefined {
    const secrets = this.#secrets.filter(({ header }) => header);
    const put = (text: string): string => putAll(text, secrets);
    let isTouched = false;
    const replaced = Object.entries(headers).map(([name, values]): [string, string[]] => {
      const after = values.map((value) => toBasic(value, put) ?? put(value));
      isTouched ||= after.some((value, at) => value !== values[at]);
      return [name, after];
    });
    return isTouched ? Object.fromEntries(replaced) : undefined;
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

  /** For what a host sends back of what it was sent. */
  inAnswer(): Replacement[] {
    return this.#secrets.flatMap(({ placeholder, value }) => {
      const texts = new Set([value, toJsonText(value)].filter((text) => text !== ""));
      return [...texts].map((text): Replacement => [Buffer.from(text), Buffer.from(placeholder)]);
    });
  }

  inAnswerHeaders(headers: Headers): Headers {
    const back = this.#secrets.map(({ placeholder, value }) => ({ placeholder: value, value: placeholder }));
    const replaced = Object.entries(headers).map(([name, values]): [string, string[]] => [
      name,
      values.map((value) => putAll(value, back)),
    ]);
    return Object.fromEntries(replaced);
  }
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

function toJsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
