/** Ways to write a text, by programs of others and not by ours. */
export const ENCODINGS: Readonly<Record<string, (text: string) => Buffer>> = {
  raw: (text) => Buffer.from(text),
  json: (text) => Buffer.from(JSON.stringify(text).slice(1, -1)),
  "json in json": (text) => Buffer.from(JSON.stringify(JSON.stringify(text)).slice(3, -3)),
  "json in json in json": (text) =>
    Buffer.from(JSON.stringify(JSON.stringify(JSON.stringify(text))).slice(7, -7)),
  "json with slashes": (text) => Buffer.from(JSON.stringify(text).slice(1, -1).replaceAll("/", "\\/")),
  "json in ascii": (text) =>
    Buffer.from(
      JSON.stringify(text)
        .slice(1, -1)
        .replace(/[<>&'\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
    ),
  "unicode escapes": (text) =>
    Buffer.from(
      text.replace(
        /[\s\S]/g,
        (unit) => `\\u${unit.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`,
      ),
    ),
  "percent, as a component": (text) => Buffer.from(encodeURIComponent(text)),
  "percent, as a form": (text) => Buffer.from(new URLSearchParams({ k: text }).toString().slice(2)),
  "percent, all of it": (text) => Buffer.from(Buffer.from(text).toString("hex").replace(/../g, "%$&")),
  "percent, twice": (text) => Buffer.from(encodeURIComponent(encodeURIComponent(text))),
  "html by name": (text) =>
    Buffer.from(
      text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;"),
    ),
  "html in decimal": (text) => Buffer.from(Array.from(text, (one) => `&#${one.codePointAt(0)};`).join("")),
  "html in hex": (text) =>
    Buffer.from(Array.from(text, (one) => `&#x${one.codePointAt(0)?.toString(16)};`).join("")),
  hex: (text) => Buffer.from(Buffer.from(text).toString("hex")),
  HEX: (text) => Buffer.from(Buffer.from(text).toString("hex").toUpperCase()),
  "C escapes": (text) => Buffer.from(Buffer.from(text).toString("hex").replace(/../g, "\\x$&")),
  "utf-16 le": (text) => Buffer.from(text, "utf16le"),
  "utf-16 be": (text) => Buffer.from(text, "utf16le").swap16(),
};

/** Base64 of a longer text that holds it. */
export const BASE64: Readonly<Record<string, (bytes: Buffer) => string>> = {
  base64: (bytes) => bytes.toString("base64"),
  base64url: (bytes) => bytes.toString("base64url"),
  "base64 in lines": (bytes) => bytes.toString("base64").replace(/.{76}/g, "$&\r\n"),
  "base64 in lines of PEM": (bytes) => bytes.toString("base64").replace(/.{64}/g, "$&\n"),
  "base64 in a form": (bytes) => encodeURIComponent(bytes.toString("base64")),
};

/** The decoded texts of everything that looks like base64. */
export function decodeAll(text: string): string[] {
  const plain = text
    .replace(/%2b/gi, "+")
    .replace(/%2f/gi, "/")
    .replace(/[\r\n]|\\[rn]/g, "");
  const runs = plain.match(/[A-Za-z0-9+/_-]{4,}/g) ?? [];
  return runs.flatMap((run) =>
    [0, 1, 2, 3].map((from) => Buffer.from(run.slice(from), "base64").toString("latin1")),
  );
}
