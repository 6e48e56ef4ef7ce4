import { SluiceError } from "../../contract/index.ts";

/** A field or a file of a form. Its content can be read until the next part is taken. */
export interface Part {
  readonly name: string;
  readonly filename: string | undefined;
  readonly type: string | undefined;
  readonly content: AsyncIterable<Uint8Array>;
}

/** The parts of a `multipart/form-data` body as they arrive, so that no file is held in memory. */
export async function* readParts(
  source: AsyncIterable<Uint8Array>,
  contentType: string | undefined,
): AsyncGenerator<Part> {
  const reader = new PartReader(source, boundaryOf(contentType));
  // The text before the first boundary belongs to no part.
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
  // The delimiter begins with a line break, which the first boundary of a form lacks.
  #buffer: Buffer = LINE;
  #isInside = true;

  constructor(source: AsyncIterable<Uint8Array>, boundary: string) {
    this.#source = source[Symbol.asyncIterator]();
    this.#delimiter = Buffer.from(`\r\n--${boundary}`);
  }

  /** The rest of this part's content. */
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

  /** False after the last boundary. */
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
        // In a part without content, the line break after the head also begins the next boundary.
        while (this.#buffer.length < this.#delimiter.length) await this.#fill();
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
  const detail = "The body has to be multipart/form-data, with its boundary in the Content-Type.";
  throw new SluiceError("invalid_request", detail);
}

function parseHeaders(head: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of head.split("\r\n")) {
    const at = line.indexOf(":");
    if (at > 0) headers.set(line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim());
  }
  return headers;
}

function parseDisposition(text = ""): { name: string; filename: string | undefined } {
  const parameters = new Map<string, string>();
  for (const [, key = "", quoted, plain = ""] of text.matchAll(PARAMETER)) {
    const value = quoted?.replaceAll(/\\(["\\])/g, "$1") ?? plain;
    if (!parameters.has(key.toLowerCase())) parameters.set(key.toLowerCase(), value);
  }
  const name = parameters.get("name");
  if (name === undefined) throw refuse("a part has no name");
  const filename = fromExtended(parameters.get("filename*")) ?? fromForm(parameters.get("filename"));
  return { name: fromForm(name), filename };
}

// Matches all parameters in one pass: a file name may hold `; name=` within its quotes.
const PARAMETER = /;\s*([^\s;="]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))/g;

// Browsers and Node percent-encode quotes and line breaks, and nothing else.
function fromForm<Text extends string | undefined>(text: Text): Text {
  return text?.replaceAll(/%(22|0D|0A)/gi, (code) => decodeURIComponent(code)) as Text;
}

function fromExtended(text: string | undefined): string | undefined {
  const [, encoded] = /^UTF-8''(.+)/i.exec(text ?? "") ?? [];
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}

function refuse(what: string): SluiceError {
  return new SluiceError("invalid_request", `The form cannot be read: ${what}.`);
}
