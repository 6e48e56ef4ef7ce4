/** The fields of one object of a script. Each getter checks its field; its error names the field. */
export class Fields {
  readonly at: string;
  readonly #record: Record<string, unknown>;

  constructor(value: unknown, at: string) {
    this.at = at;
    this.#record = asRecord(value, at);
  }

  value(key: string): unknown {
    return Object.hasOwn(this.#record, key) ? this.#record[key] : undefined;
  }

  object(key: string): Fields {
    return new Fields(this.value(key), `${this.at}.${key}`);
  }

  text(key: string, fallback?: string): string {
    const value = this.value(key) ?? fallback;
    if (typeof value === "string") return value;
    throw this.#wrong(key, "a string");
  }

  bytes(key: string): Uint8Array {
    const value = this.text(key);
    if (/^[\w+/-]*={0,2}$/.test(value)) return Buffer.from(value, "base64");
    throw this.#wrong(key, "base64");
  }

  list(key: string): unknown[] {
    const value = this.value(key);
    if (Array.isArray(value)) return value;
    throw this.#wrong(key, "an array");
  }

  texts(key: string): string[] {
    if (this.value(key) === undefined) return [];
    const list = this.list(key);
    if (list.every((entry) => typeof entry === "string")) return list;
    throw this.#wrong(key, "an array of strings");
  }

  number(key: string): number {
    const value = this.value(key);
    if (typeof value === "number" && value >= 0) return value;
    throw this.#wrong(key, "a number, 0 or more");
  }

  count(key: string, fallback?: number): number {
    const value = this.value(key) ?? fallback;
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
    throw this.#wrong(key, "a whole number, 0 or more");
  }

  oneOf<T extends string>(key: string, words: readonly T[], fallback?: T): T {
    const value = this.value(key) ?? fallback;
    if (words.includes(value as T)) return value as T;
    throw this.#wrong(key, `one of ${words.join(", ")}`);
  }

  #wrong(key: string, expected: string): BadScript {
    return new BadScript(`${this.at}.${key} must be ${expected}, not ${describe(this.value(key))}`);
  }
}

export function asRecord(value: unknown, at: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw new BadScript(`${at} must be an object, not ${describe(value)}`);
}

/** Any value, shortened for an error message. */
export function describe(value: unknown): string {
  if (value === undefined) return "missing";
  const text = JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** A fault of a script, with a message for its author. */
export class BadScript extends Error {}
