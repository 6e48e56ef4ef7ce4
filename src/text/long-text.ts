/**
 * The most text that is collected from deltas, in UTF-16 units. The text is repeated in one event, whose JSON may have
 * six times as many characters. No string of JavaScript has more than about 512 million.
 */
export const COLLECTED_LENGTH: number = 16 * 1024 * 1024;

/** Adds the beginning of `more` to a collected text, as much as there is room for, and a note about the cut. */
export function addCut(text: string, more: string, room: number): string {
  const kept = text + headOf(more, Math.max(0, room));
  return `${kept}\n[the text was cut after ${kept.length} characters; the deltas of the item have the rest]`;
}

/** The first `length` units of a text, without half of a surrogate pair at their end. */
export function headOf(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}

/** Whether the JSON of a value has more than `limit` characters. It is counted only where it may be so. */
export function isLongJson(value: unknown, limit: number): boolean {
  return measure(value, mostOf, limit) > limit && measure(value, countOf, limit) > limit;
}

function measure(value: unknown, ofText: (text: string) => number, limit: number): number {
  if (typeof value === "string") return ofText(value);
  if (typeof value !== "object" || value === null) return LONGEST_NUMBER;
  let length = 2;
  if (Array.isArray(value)) {
    for (const one of value) {
      if (length > limit) return length;
      length += 1 + measure(one, ofText, limit);
    }
    return length;
  }
  for (const [key, one] of Object.entries(value)) {
    if (length > limit) return length;
    length += 2 + ofText(key) + measure(one, ofText, limit);
  }
  return length;
}

const LONGEST_NUMBER = 24;

function mostOf(text: string): number {
  return 2 + 6 * text.length;
}

/** The exact length of a text as JSON. */
function countOf(text: string): number {
  let length = 2;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20) length += SHORT_ESCAPES.has(code) ? 2 : 6;
    else if (code === 0x22 || code === 0x5c) length += 2;
    else if (code >= 0xd800 && code < 0xe000) length += isPair(text, at) ? 1 : 6;
    else length += 1;
  }
  return length;
}

const SHORT_ESCAPES = new Set([0x08, 0x09, 0x0a, 0x0c, 0x0d]);

/** Whether the surrogate belongs to a pair: a lone one is escaped. */
function isPair(text: string, at: number): boolean {
  if (text.charCodeAt(at) < 0xdc00) return isBetween(text.charCodeAt(at + 1), 0xdc00, 0xe000);
  return isBetween(text.charCodeAt(at - 1), 0xd800, 0xdc00);
}

function isBetween(code: number, from: number, to: number): boolean {
  return code >= from && code < to;
}
