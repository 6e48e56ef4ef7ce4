import { SluiceError } from "../contract/index.ts";

/** A field or a file of a form. Its content has to be read before the next part is asked for; else it is skipped. */
export interface Part {
  readonly name: string;
  readonly filename: string | undefined;
  readonly type: string | undefined;
  readonly content: AsyncIterable<Uint8Array>;
}

/** The parts of a `multipart/form-data` body as they come, so that no file is ever held in memory. */
export async function* readParts(
  source: AsyncIterable<Uint8Array>,
  contentType: string | undefined,
): AsyncGenerator<Part> {
  const reader = new PartReader(source, boundaryOf(contentType));
  // What stands before the first boundary is nobody's.
  await reader.skipPart();
  while (await reader.nextPart()) {
    const headers = parseHeaders(await reader.readHead());
    const { name, filename } = parseDisposition(headers.get("content-disposition"));
    yield { name, filename, type: headers.get("content-type"), content: reader };
    await reader.skipPart();
  }
}

/** A small field as text. */
export async function readField(part: Part): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of part.content) {
    size += chunk.length;
    if (size > MAX_FIELD) throw refuse(`the field ${part.name} has more than ${MAX_FIELD} bytes`);
    chunks.push(Buffer.from(chunk));
  }
  return Buffer.concat(chunks).toString("utf8");
}

const MAX_FIELD = 64 * 1024;
const MAX_HEAD = 16 * 1024;
const LINE = Buffer.from("\r\n");
const HEAD_END = Buffer.from("\r\n\r\n");

class PartReader implements AsyncIterable<Uint8Array> {
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #delimiter: Buffer;
  // A boundary stands behind a line break, but for the first one.
  #buffer: Buffer = LINE;
  #isInside = true;

  constructor(source: AsyncIterable<Uint8Array>, boundary: string) {
    this.#source = source[Symbol.asyncIterator]();
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
  }

  /** What is left of this part's content. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    while (this.#isInside) {
      const at = this.#buffer.indexOf(this.#delimiter);
      const size = at >= 0 ? at : Math.max(0, this.#buffer.length - this.#delimiter.length + 1);
      const chunk = this.#buffer.subarray(0, size);
      this.#buffer = this.#buffer.subarray(at >= 0 ? size + this.#delimiter.length : size);
      this.#isInside = at < 0;
      if (chunk.length > 0) yield chunk;
      if (this.#isInside) await this.#fill();
    }
  }

  async skipPart(): Promise<void> {
    for await (const _ of this);
  }

  /** False behind the last boundary. */
  async nextPart(): Promise<boolean> {
    while (this.#buffer.length < 2) await this.#fill();
    if (this.#buffer.toString("latin1", 0, 2) === "--") return false;
    this.#isInside = true;
    return true;
  }

  async readHead(): Promise<string> {
    for (;;) {
      const at = this.#buffer.indexOf(HEAD_END);
      if (at >= 0) {
        const head = this.#buffer.toString("utf8", 0, at);
        this.#buffer = this.#buffer.subarray(at + HEAD_END.length - LINE.length);
        // The line break that ends the head may also begin the next boundary, where the content is empty.
        if (!this.#startsWithDelimiter()) this.#buffer = this.#buffer.subarray(LINE.length);
        return head;
      }
      if (this.#buffer.length > MAX_HEAD) throw refuse("a part's head is too long");
      await this.#fill();
    }
  }

  #startsWithDelimiter(): boolean {
    return this.#buffer.subarray(0, this.#delimiter.length).equals(this.#delimiter);
  }

  async #fill(): Promise<void> {
    const { done, value } = await this.#source.next();
    if (done) throw refuse("it ends before its last boundary");
    this.#buffer = this.#buffer.length === 0 ? Buffer.from(value) : Buffer.concat([this.#buffer, value]);
  }
}

function boundaryOf(contentType: string | undefined): string {
  const [, quoted, plain] =
    /^multipart\/form-data\s*;.*?\bboundary=(?:"([^"]{1,200})"|([^\s;]{1,200}))/i.exec(contentType ?? "") ??
    [];
  const boundary = quoted ?? plain;
  if (boundary !== undefined) return boundary;
  throw new SluiceError(
    "invalid_request",
    "The body has to be multipart/form-data, with its boundary in the Content-Type.",
  );
}

function parseHeaders(head: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of head.split("\r\n")) {
    const at = line.indexOf(":");
    if (at > 0) headers.set(line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim());
  }
  return headers;
}

function parseDisposition(text: string | undefined): { name: string; filename: string | undefined } {
  const name = parameterOf(text, "name");
  if (name === undefined) throw refuse("a part has no name");
  return { name, filename: extendedOf(text) ?? parameterOf(text, "filename") };
}

// As browsers and Node write them: quotes and line breaks percent-encoded, nothing else.
function parameterOf(text: string | undefined, parameter: string): string | undefined {
  const match = new RegExp(`;\\s*${parameter}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;]+))`, "i").exec(text ?? "");
  const value = match?.[1]?.replaceAll(/\\(["\\])/g, "$1") ?? match?.[2];
  return value?.replaceAll(/%(22|0D|0A)/gi, (code) => decodeURIComponent(code));
}

function extendedOf(text: string | undefined): string | undefined {
  const [, encoded] = /;\s*filename\*=UTF-8''([^\s;]+)/i.exec(text ?? "") ?? [];
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function refuse(what: string): SluiceError {
  return new SluiceError("invalid_request", `The form cannot be read: ${what}.`);
}
