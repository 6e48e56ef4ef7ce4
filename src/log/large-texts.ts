import { createHash } from "node:crypto";
import { findStringEnd } from "../contract/index.ts";

/** Larger texts are blobs: stored once, outside of the rows. */
const BLOB_BYTES = 32 * 1024;

/** A large text, stored by its hash. */
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
 * An event's text without its large strings; undefined where it has none. The line begins with `@` and, for each blob,
 * its offset in the remaining text and its hash. No event's text begins with `@`.
 */
export function toOutline(text: string): { line: string; blobs: Blob[] } | undefined {
  const blobs: Blob[] = [];
  const references: string[] = [];
  let outline = "";
  let copied = 0;
  let close = -1;
  for (let open = text.indexOf('"'); open !== -1; open = text.indexOf('"', close + 1)) {
    close = findStringEnd(text, open);
    if ((close - open) * 3 <= BLOB_BYTES) continue;
    const content = JSON.parse(text.slice(open, close + 1)) as string;
    if (!isBig(content) || !isWellFormed(content)) continue;
    const blob = toBlob(content);
    blobs.push(blob);
    outline += text.slice(copied, open + 1);
    copied = close;
    references.push(`${outline.length}:${blob.hash}`);
  }
  if (blobs.length === 0) return undefined;
  return { line: `@${references.join(",")} ${outline}${text.slice(copied)}`, blobs };
}

export function isOutline(line: string): boolean {
  // 64 is "@". The comparison of numbers makes no string.
  return line.charCodeAt(0) === 64;
}

/** The original text of an event, to the byte; undefined where a blob is missing. */
export function fromOutline(line: string, read: (hash: string) => string | undefined): string | undefined {
  const start = line.indexOf(" ") + 1;
  let text = "";
  let copied = start;
  for (const reference of line.slice(1, start - 1).split(",")) {
    const colon = reference.indexOf(":");
    const position = start + Number(reference.slice(0, colon));
    const blob = read(reference.slice(colon + 1));
    if (blob === undefined) return undefined;
    text += line.slice(copied, position) + JSON.stringify(blob).slice(1, -1);
    copied = position;
  }
  return text + line.slice(copied);
}

/** Whether a text is the same after encoding to UTF-8 and back. */
export function isWellFormed(text: string): boolean {
  return wellFormed.call(text);
}

// Node has it since 20; the ES2023 types do not.
const wellFormed = (String.prototype as unknown as { isWellFormed(this: string): boolean }).isWellFormed;
