import { createHash } from "node:crypto";

/** Texts over this many bytes are kept once, beside the log. */
export const BLOB_BYTES = 32 * 1024;

/** A content-addressed text, on its way into the store. */
export interface Blob {
  readonly hash: string;
  readonly text: string;
}

export function isBig(text: string): boolean {
  // A UTF-16 unit takes at most three bytes, so most texts need no count.
  if (text.length * 3 <= BLOB_BYTES) return false;
  return text.length > BLOB_BYTES || Buffer.byteLength(text) > BLOB_BYTES;
}

export function toBlob(text: string): Blob {
  return { hash: createHash("sha256").update(text).digest("hex"), text };
}

/**
 * An event's text without its big strings, or undefined where it has none. The line begins with `@` and says which
 * blob belongs at which place of what follows; nothing inside an event can look like that.
 */
export function toOutline(text: string): { line: string; blobs: Blob[] } | undefined {
  const blobs: Blob[] = [];
  const places: string[] = [];
  let outline = "";
  let copied = 0;
  let close = -1;
  for (let open = text.indexOf('"'); open !== -1; open = text.indexOf('"', close + 1)) {
    close = closingQuote(text, open + 1);
    if ((close - open) * 3 <= BLOB_BYTES) continue;
    const content = JSON.parse(text.slice(open, close + 1)) as string;
    if (!isBig(content) || !isWellFormed(content)) continue;
    const blob = toBlob(content);
    blobs.push(blob);
    outline += text.slice(copied, open + 1);
    copied = close;
    places.push(`${outline.length}:${blob.hash}`);
  }
  if (blobs.length === 0) return undefined;
  return { line: `@${places.join(",")} ${outline}${text.slice(copied)}`, blobs };
}

export function isOutline(line: string): boolean {
  return line.charCodeAt(0) === 64;
}

/** The event's text again, to the byte; undefined where a blob of it is missing. */
export function fromOutline(line: string, read: (hash: string) => string | undefined): string | undefined {
  const start = line.indexOf(" ") + 1;
  let text = "";
  let copied = start;
  for (const reference of line.slice(1, start - 1).split(",")) {
    const colon = reference.indexOf(":");
    const place = start + Number(reference.slice(0, colon));
    const blob = read(reference.slice(colon + 1));
    if (blob === undefined) return undefined;
    text += line.slice(copied, place) + JSON.stringify(blob).slice(1, -1);
    copied = place;
  }
  return text + line.slice(copied);
}

/** Whether a text survives the way through UTF-8. */
export function isWellFormed(text: string): boolean {
  return wellFormed.call(text);
}

// Node has it since 20; the ES2023 types do not.
const wellFormed = (String.prototype as unknown as { isWellFormed(this: string): boolean }).isWellFormed;

function closingQuote(text: string, from: number): number {
  let at = text.indexOf('"', from);
  while (isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text.charCodeAt(at - 1 - slashes) === 92) slashes++;
  return slashes % 2 === 1;
}
