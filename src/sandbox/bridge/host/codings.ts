import type { Transform } from "node:stream";
import zlib, { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";

/** Each costs memory, and nobody needs more. */
const MOST_CODINGS = 3;

/** What undoes a Content-Encoding, in this order; undefined where it cannot be undone here. */
export function toDecoders(header: string | undefined): Transform[] | undefined {
  const names = (header ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "identity");
  const makers = names
    .toReversed()
    .map((name) => (Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined));
  if (makers.length > MOST_CODINGS || makers.includes(undefined)) return undefined;
  return makers.map((make) => (make as () => Transform)());
}

const DECODERS: Readonly<Record<string, (() => Transform) | undefined>> = {
  gzip: () => createGunzip(),
  "x-gzip": () => createGunzip(),
  deflate: () => createInflate(),
  br: () => createBrotliDecompress(),
  // Since Node 22.15.
  zstd: (zlib as { createZstdDecompress?: () => Transform }).createZstdDecompress,
};
