import { own } from "../../../contract/ownKeys.ts";
import { refuse } from "./refusal.ts";
import { type Stored, toTimestamp } from "./stored.ts";

const MAX_FILENAME = 500;
const MIN_SECONDS = 3600;
const MAX_SECONDS = 7_776_000;

export interface FileBody {
  readonly filename: string;
  readonly mime_type: string;
  readonly size_bytes: number;
  readonly downloadable: boolean;
  readonly expires_at: string | null;
  readonly scope: { readonly type: "session"; readonly id: string } | null;
  /** SHA-256 of the content; where the bytes are, and not part of any answer. */
  readonly content: string;
}

export interface FileMetadata extends Omit<FileBody, "content"> {
  readonly id: string;
  readonly type: "file";
  readonly created_at: string;
}

export function toFileMetadata({ id, createdAt, body }: Stored<FileBody>): FileMetadata {
  const { content: _, ...told } = body;
  return { id, type: "file", ...told, created_at: toTimestamp(createdAt) };
}

export function isExpired({ expires_at }: FileBody, now: number): boolean {
  return expires_at !== null && Date.parse(expires_at) <= now;
}

/** The last part of what a client calls its file. */
export function toFilename(given: string | undefined, mimeType: string): string {
  const name = (given ?? "").split(/[/\\]/).at(-1)?.trim() ?? "";
  if (name === "" || name === "." || name === "..") return `unnamed${EXTENSIONS.get(mimeType) ?? ""}`;
  // oxlint-disable-next-line no-control-regex
  if (/[\u0000-\u001F\u007F]/.test(name)) throw refuse("file: the filename has control characters.");
  if (name.length > MAX_FILENAME)
    throw refuse(`file: the filename has more than ${MAX_FILENAME} characters.`);
  return name;
}

/** A type that says nothing is replaced by what the name says. */
export function toMimeType(given: string | undefined, filename: string | undefined): string {
  const told = given?.split(";")[0]?.trim().toLowerCase() ?? "";
  if (told !== "" && told !== "application/octet-stream") return told;
  const extension = /\.[A-Za-z0-9]+$/.exec(filename ?? "")?.[0].toLowerCase() ?? "";
  return own(MIME_TYPES, extension) ?? "application/octet-stream";
}

export function parseExpiry(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds >= MIN_SECONDS && seconds <= MAX_SECONDS) return seconds;
  throw refuse(
    `expires_in_seconds: expected ${MIN_SECONDS} to ${MAX_SECONDS}, got ${JSON.stringify(text.slice(0, 40))}.`,
  );
}

const MIME_TYPES: Readonly<Record<string, string>> = {
  ".txt": "text/plain",
  ".log": "text/plain",
  ".md": "text/markdown",
  ".csv": "text/csv",
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".json": "application/json",
  ".xml": "application/xml",
  ".yaml": "application/yaml",
  ".yml": "application/yaml",
  ".pdf": "application/pdf",
  ".zip": "application/zip",
  ".gz": "application/gzip",
  ".tar": "application/x-tar",
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp",
  ".svg": "image/svg+xml",
  ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
};

// The first extension of each type is its usual one.
const EXTENSIONS = new Map(
  Object.entries(MIME_TYPES)
    .toReversed()
    .map(([extension, type]) => [type, extension] as const),
);
