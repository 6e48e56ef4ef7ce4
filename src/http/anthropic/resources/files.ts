import type { Catalog, CreateDocument, Document, HeldBytes, StoredBytes } from "../../../catalog/port.ts";
import { SluiceError } from "../../../contract/index.ts";
import {
  type FileBody,
  type FileMetadata,
  isExpired,
  parseExpiry,
  toFileMetadata,
  toFilename,
  toMimeType,
} from "../../../dialects/anthropic/resources/file.ts";
import { refuse, toTimestamp } from "../../../dialects/anthropic/resources/resource.ts";
import { permits } from "../../access/access.ts";
import { readField, readParts } from "../../body/multipart.ts";
import { streamBody } from "../../body/read.ts";
import type { Collection } from "../collections.ts";
import { createId } from "../dialect.ts";
import { type Labels, createOnce, removeOnce } from "../idempotency.ts";
import type { Page } from "../page.ts";
import { fileOperations } from "../operations/documents.ts";
import { type AnthropicCall, type Route, type SharedServices } from "../route.ts";
import { collectOutputs } from "./outputs.ts";

const MAX_IDS = 100;
/** Room for the headers and boundaries of a form around its file. */
const FORM_BYTES = 1024 * 1024;

export function mountFiles(route: Route, services: SharedServices): void {
  const { catalog, collections, limits } = services;
  const { files } = collections;

  route(fileOperations.anthropicUploadFile, async (call) => {
    const { c, tenant } = call;
    const { held, ...file } = await readUpload(c, catalog, limits.upload);
    try {
      const create = async (labels: Labels): Promise<FileMetadata> => {
        return toFileMetadata(await files.create(tenant, { ...createFileDocument(file), labels }));
      };
      // The boundary of a form differs in a resend, so the content identifies it.
      const { filename, mimeType, content, expiresInSeconds } = file;
      const input = { filename, mimeType, hash: content.hash, expiresInSeconds };
      return await createOnce(call, { collection: files, input, create, toAnswer: toFileMetadata });
    } finally {
      await held.release();
    }
  });

  route(fileOperations.anthropicListFiles, async ({ scope, tenant, query, c }) => {
    const { ids, scope_id } = query;
    // Collecting outputs writes documents. A token that may only read sees the outputs that were collected before.
    if (scope_id !== undefined && permits(c.get("access"), "control")) await collectOutputs(scope, scope_id);
    if (ids) {
      const wanted = [...new Set(ids)];
      if (wanted.length > MAX_IDS) throw refuse(`ids: at most ${MAX_IDS} are allowed.`);
      const isPaged = query.page !== undefined || c.req.query("limit") !== undefined;
      if (isPaged)
        throw refuse(
          "ids: it cannot be combined with page and limit. Leave them out: the answer is always one page.",
        );
      const found = await files.list(tenant, { ids: wanted, parent: scope_id, limit: MAX_IDS });
      return toFileList({ items: found, next_page: null, prev_page: null });
    }
    const isOld = query.after_id !== undefined || query.before_id !== undefined;
    return toFileList(
      isOld ? await readOldPage(files, tenant, query) : await files.page(tenant, query, { parent: scope_id }),
    );
  });

  route(fileOperations.anthropicGetFile, async ({ tenant, param }) =>
    toFileMetadata(await files.get(tenant, param("id"))),
  );

  route(fileOperations.anthropicGetFileContent, async ({ tenant, param }) => {
    const { body } = await files.get(tenant, param("id"));
    const content = await readContent(catalog, body);
    return new Response(content.stream(), {
      headers: {
        "content-type": body.mime_type,
        "content-length": String(content.size),
        // An uploaded file must not become a page of this origin.
        "x-content-type-options": "nosniff",
        "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(body.filename)}`,
      },
    });
  });

  route(fileOperations.anthropicDeleteFile, ({ c, tenant, param }) =>
    removeOnce(c, { id: param("id"), type: "file_deleted" }, async () => {
      const { id } = await files.get(tenant, param("id"));
      await files.remove(tenant, id);
    }),
  );
}

export interface NewFile {
  readonly filename: string;
  readonly mimeType: string;
  readonly content: { readonly hash: string; readonly size: number };
  readonly expiresInSeconds?: number | undefined;
  /** The session of the file, for `scope_id`. */
  readonly scope?: string | undefined;
}

/** The document of bytes that the catalog holds already. */
export function createFileDocument(file: NewFile): CreateDocument {
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

/** The bytes of a file; throws if it has expired. */
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

/** Parts may come in any order. The file is written to disk as it arrives. */
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
      if (file.held) throw refuse("file: the form has more than one file. Upload one file at a time.");
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

/** A page after `after_id` or before `before_id`, for SDKs that know no page cursors. */
async function readOldPage(
  files: Collection<FileBody>,
  tenant: string,
  query: {
    limit: number;
    scope_id?: string | undefined;
    after_id?: string | undefined;
    before_id?: string | undefined;
  },
): Promise<Page<Document<FileBody>>> {
  const { limit, scope_id: parent, after_id, before_id } = query;
  const { ordinal: after } = await files.get(tenant, after_id ?? before_id ?? "");
  const order = after_id === undefined ? "asc" : "desc";
  const found = await files.list(tenant, { parent, order, after, limit: limit + 1 });
  const items = found.slice(0, limit);
  if (order === "asc") items.reverse();
  return { items, next_page: found.length > limit ? "more" : null, prev_page: null };
}

/** SDKs before 0.137 read `has_more`, `first_id` and `last_id`. */
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
