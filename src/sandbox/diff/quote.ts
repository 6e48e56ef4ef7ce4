/** A path as git writes it: plain where that is safe, else in quotes with escapes. */
export function toQuoted(path: string): string {
  const escaped = escapePath(path);
  return escaped === path ? path : `"${escaped}"`;
}

export function escapePath(path: string): string {
  let text = "";
  for (const byte of Buffer.from(path)) {
    const char = String.fromCharCode(byte);
    const named = NAMED[char];
    if (named !== undefined) text += named;
    else if (byte < 0x20 || byte > 0x7e) text += `\\${byte.toString(8).padStart(3, "0")}`;
    else text += char;
  }
  return text;
}

const NAMED: Readonly<Record<string, string>> = {
  "\u0007": "\\a",
  "\b": "\\b",
  "\t": "\\t",
  "\n": "\\n",
  "\v": "\\v",
  "\f": "\\f",
  "\r": "\\r",
  '"': '\\"',
  "\\": "\\\\",
};
