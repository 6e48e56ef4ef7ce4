import { SluiceError } from "../../contract/index.ts";

/** What a run may send back at most. */
export const ASSET_LIMITS = { files: 20, fileBytes: 25 * 1024 * 1024, totalBytes: 50 * 1024 * 1024 } as const;

const MAX_NAME = 128;

const TYPES: Readonly<Record<string, string>> = {
  csv: "text/csv",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  gif: "image/gif",
  html: "text/html",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  json: "application/json",
  jsonl: "application/x-ndjson",
  log: "text/plain",
  md: "text/markdown",
  mp3: "audio/mpeg",
  mp4: "video/mp4",
  ndjson: "application/x-ndjson",
  patch: "text/x-diff",
  pdf: "application/pdf",
  png: "image/png",
  pptx: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  svg: "image/svg+xml",
  tsv: "text/tab-separated-values",
  txt: "text/plain",
  wav: "audio/wav",
  webm: "video/webm",
  webp: "image/webp",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  xml: "application/xml",
  yaml: "application/yaml",
  yml: "application/yaml",
  zip: "application/zip",
};

/** A name that means nothing to any file system, and what kind of file it is by its end. Fails for other kinds. */
export function toAssetName(filename: string): { name: string; mime: string } {
  const last = filename.split(/[/\\]/).at(-1) ?? "";
  const plain = last.replaceAll(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "");
  const [stem, extension] = split(plain);
  const mime = Object.hasOwn(TYPES, extension.toLowerCase()) ? TYPES[extension.toLowerCase()] : undefined;
  if (mime === undefined) {
    const kinds = Object.keys(TYPES).join(", ");
    throw new SluiceError(
      "invalid_request",
      `${JSON.stringify(last.slice(0, MAX_NAME))} is no kind of file that a run can write back. Kinds: ${kinds}.`,
    );
  }
  return { name: `${(stem || "file").slice(0, MAX_NAME)}.${extension}`, mime };
}

/** The second one of a name gets a number. */
export function toFreeName(name: string, taken: ReadonlySet<string>): string {
  const [stem, extension] = split(name);
  let free = name;
  for (let count = 2; taken.has(free); count += 1) free = `${stem}-${count}.${extension}`;
  return free;
}

function split(name: string): [stem: string, extension: string] {
  const dot = name.lastIndexOf(".");
  return dot < 0 ? [name, ""] : [name.slice(0, dot), name.slice(dot + 1)];
}
