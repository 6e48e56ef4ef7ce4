import type { BetaFileMetadata } from "@anthropic-ai/sdk/resources/beta/files";
import { own } from "../../../contract/own-keys.ts";
import { MIME_TYPES } from "../../shared/mime.ts";
import { type Immutable, refuse, type Stored, toTimestamp } from "./resource.ts";

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
  /** SHA-256 of the content, by which the bytes are found; never in an answer. */
  readonly content: string;
}

export interface FileMetadata extends Omit<FileBody, "content"> {
  readonly id: string;
  readonly type: "file";
  readonly created_at: string;
}

export function toFileMetadata({ id, createdAt, body }: Stored<FileBody>): FileMetadata {
  const { content: _, ...shown } = body;
  const file = { id, type: "file", ...shown, created_at: toTimestamp(createdAt) } as const;
  return file satisfies Immutable<BetaFileMetadata>;
}

export function isExpired({ expires_at }: FileBody, now: number): boolean {
  return expires_at !== null && Date.parse(expires_at) <= now;
}

/** The last part of the client's file name. */
export function toFilename(given: string | undefined, mimeType: string): string {
  const name = (given ?? "").split(/[/\\]/).at(-1)?.trim() ?? "";
  if (name === "" || name === "." || name === "..") return `unnamed${EXTENSIONS.get(mimeType) ?? ""}`;
  // oxlint-disable-next-line no-control-regex -- control characters are what is refused here
  if (/[\u0000-\u001F\u007F]/.test(name)) throw refuse("file: the filename has control characters.");
  if (name.length > MAX_FILENAME)
    throw refuse(`file: the filename has more than ${MAX_FILENAME} characters.`);
  return name;
}

/** The given type. If it is absent or generic, the file name decides. */
export function toMimeType(given: string | undefined, filename: string | undefined): string {
  const type = given?.split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "" && type !== "application/octet-stream") return type;
  const extension = /\.([A-Za-z0-9]+)$/.exec(filename ?? "")?.[1]?.toLowerCase() ?? "";
  return own(TYPES, extension) ?? "application/octet-stream";
}

export function parseExpiry(text: string | undefined): number | undefined {
  if (text === undefined || text === "") return undefined;
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (seconds >= MIN_SECONDS && seconds <= MAX_SECONDS) return seconds;
  throw refuse(
    `expires_in_seconds: expected ${MIN_SECONDS} to ${MAX_SECONDS}, got ${JSON.stringify(text.slice(0, 40))}.`,
  );
}

const TYPES: Readonly<Record<string, string>> = {
  ...MIME_TYPES,
  css: "text/css",
  js: "text/javascript",
  gz: "application/gzip",
  tar: "application/x-tar",
};

// The first extension of each type is its usual one.
const EXTENSIONS = new Map(
  Object.entries(TYPES)
    .toReversed()
    .map(([extension, type]) => [type, `.${extension}`] as const),
);
