import { z } from "zod";
import type { Catalog, CreateDocument, Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import {
  type FileBody,
  type FileMetadata,
  isExpired,
  parseExpiry,
  toFileMetadata,
  toFilename,
  toMimeType,
} from "../../dialects/anthropic/resources/file.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { toTimestamp } from "../../dialects/anthropic/resources/stored.ts";
import type { HeldBytes, StoredBytes } from "../../catalog/bytes/port.ts";
import { streamBody } from "../body.ts";
import { readField, readParts } from "../multipart.ts";
import { createId } from "./ids.ts";
import { type Labels, madeOnce } from "./made-once.ts";
import { collectOutputs } from "./outputs.ts";
import type { Page } from "./page.ts";
import * as params from "./query.ts";
import { removedOnce } from "./resend.ts";
import type { AnthropicCall, Route } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import type { Shelf } from "./shelf.ts";

const MAX_IDS = 100;
/** What a form adds around its file. */
const FORM_BYTES = 1024 * 1024;

const ListFiles = z.object({
  limit: params.limitOf(20),
  page: params.page,
  ids: params.listOf(z.string()),
  scope_id: params.text,
  after_id: params.text,
  before_id: params.text,
});

export function mountFiles(route: Route, services: AnthropicServices): void {
  const { catalog, shelves, limits } = services;
  const { files } = shelves;

  route("POST", "/files", {}, async (call) => {
    const { c, owner } = call;
    const { held, ...file } = await readUpload(c, catalog, limits.upload);
    try {
      const make = async (labels: Labels): Promise<FileMetadata> => {
        const [made] = await catalog.write(owner, [{ ...toNewFile(file), labels }]);
        return toFileMetadata(made as Document<FileBody>);
      };
      // A form is another text each time that it is sent; what it holds is the same.
      const { filename, mimeType, content, expiresInSeconds } = file;
      const said = { filename, mimeType, hash: content.hash, expiresInSeconds };
      return await madeOnce(services, call, { shelf: files, said, make, tell: toFileMetadata });
    } finally {
      await held.release();
    }
  });

  route("GET", "/files", { query: ListFiles }, async ({ owner, query, c }) => {
    const { ids, scope_id } = query;
    if (scope_id !== undefined) await collectOutputs(services, owner, scope_id);
    if (ids) {
      const wanted = [...new Set(ids)];
      if (wanted.length > MAX_IDS) throw refuse(`ids: at most ${MAX_IDS} are allowed.`);
      const isPaged = query.page !== undefined || c.req.query("limit") !== undefined;
      if (isPaged) throw refuse("ids: it excludes page and limit; the answer is always one page.");
      const found = await files.list(owner, { ids: wanted, parent: scope_id, limit: MAX_IDS });
      return toFileList({ items: found, next_page: null, prev_page: null });
    }
    const isOld = query.after_id !== undefined || query.before_id !== undefined;
    return toFileList(
      isOld ? await readOldPage(files, owner, query) : await files.page(owner, query, { parent: scope_id }),
    );
  });

  route("GET", "/files/:id", {}, async ({ owner, param }) =>
    toFileMetadata(await files.get(owner, param("id"))),
  );

  route("GET", "/files/:id/content", {}, async ({ owner, param }) => {
    const { body } = await files.get(owner, param("id"));
    const content = await readContent(catalog, body);
    return new Response(content.stream(), {
      headers: {
        "content-type": body.mime_type,
        "content-length": String(content.size),
        // Whatever somebody uploaded is never a page of this origin.
        "x-content-type-options": "nosniff",
        "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(body.filename)}`,
      },
    });
  });

  route("DELETE", "/files/:id", {}, ({ c, owner, param }) =>
    removedOnce(c, { id: param("id"), type: "file_deleted" }, async () => {
      const { id } = await files.get(owner, param("id"));
      await catalog.write(owner, [{ op: "remove", kind: files.kind, id }]);
    }),
  );
}

export interface NewFile {
  readonly filename: string;
  readonly mimeType: string;
  readonly content: { readonly hash: string; readonly size: number };
  readonly expiresInSeconds?: number | undefined;
  /** The session that it belongs to; its files are listed by `scope_id`. */
  readonly scope?: string | undefined;
}

/** A file of what the catalog already holds, uploaded or copied for a session. */
export function toNewFile(file: NewFile): CreateDocument {
  const { filename, mimeType, content, expiresInSeconds, scope } = file;
  const until = expiresInSeconds === undefined ? undefined : Date.now() + expiresInSeconds * 1000;
  const body: FileBody = {
    filename,
    mime_type: mimeType,
    size_bytes: content.size,
    downloadable: true,
    expires_at: until === undefined ? null : toTimestamp(until),
    scope: scope === undefined ? null : { type: "session", id: scope },
    content: content.hash,
  };
  return {
    op: "create",
    kind: "file",
    id: createId("file"),
    parent: scope,
    body,
    bytes: [content.hash],
    bytesUntil: until ?? null,
  };
}

/** The bytes of a file, or why there are none. */
export async function readContent(catalog: Catalog, body: FileBody): Promise<StoredBytes> {
  if (isExpired(body, Date.now()))
    throw new SluiceError("file_not_found", "The file has expired. Upload it again.", {
      errorCode: "file_expired",
    });
  const content = await catalog.bytes.read(body.content);
  if (content) return content;
  throw new SluiceError("internal", "The content of the file is missing from the data folder.");
}

interface Upload extends NewFile {
  readonly held: HeldBytes;
}

/** The parts may come in any order; the file goes to the disk as it comes. */
async function readUpload(
  c: AnthropicCall<unknown, unknown>["c"],
  catalog: Catalog,
  limit: number,
): Promise<Upload> {
  const file: { held?: HeldBytes; name?: string; type?: string } = {};
  try {
    let expiry: string | undefined;
    const source = streamBody(c, limit + FORM_BYTES);
    for await (const part of readParts(source, c.req.header("content-type"))) {
      if (part.name === "expires_in_seconds") expiry = await readField(part);
      if (part.name !== "file") continue;
      if (file.held) throw refuse("file: one file at a time.");
      file.type = toMimeType(part.type, part.filename);
      file.name = toFilename(part.filename, file.type);
      file.held = await catalog.bytes.write(part.content, { limit });
    }
    const expiresInSeconds = parseExpiry(expiry);
    const { held, name: filename, type: mimeType } = file;
    if (!held || filename === undefined || mimeType === undefined)
      throw refuse("file: the form has no part of this name.");
    return { held, filename, mimeType, content: held, expiresInSeconds };
  } catch (error) {
    await file.held?.release();
    throw error;
  }
}

/** `after_id` and `before_id`, of SDKs before page cursors. */
async function readOldPage(
  files: Shelf<FileBody>,
  owner: string,
  query: {
    limit: number;
    scope_id?: string | undefined;
    after_id?: string | undefined;
    before_id?: string | undefined;
  },
): Promise<Page<Document<FileBody>>> {
  const { limit, scope_id: parent, after_id, before_id } = query;
  const { ordinal: after } = await files.get(owner, after_id ?? before_id ?? "");
  const order = after_id === undefined ? "asc" : "desc";
  const found = await files.list(owner, { parent, order, after, limit: limit + 1 });
  const items = found.slice(0, limit);
  if (order === "asc") items.reverse();
  return { items, next_page: found.length > limit ? "more" : null, prev_page: null };
}

/** Both sets of fields: SDKs before 0.137 read the lower ones. */
function toFileList({ items, next_page }: Page<Document<FileBody>>) {
  const data = items.map(toFileMetadata);
  return {
    data,
    next_page: next_page === "more" ? null : next_page,
    has_more: next_page !== null,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}
