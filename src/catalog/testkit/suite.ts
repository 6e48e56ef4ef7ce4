import assert from "node:assert/strict";
import { SluiceError, type ErrorCode } from "../../contract/index.ts";
import type { Catalog, CreateDocument, Document, HeldBytes, ListQuery, StoredBytes } from "../port.ts";

export interface CatalogUnderTest {
  readonly catalog: Catalog;
  /** The catalog's clock, moved by the suite. */
  readonly clock: { now: number };
  /** Closes the catalog and opens its data again. Absent for a volatile catalog. */
  reopen?(): Promise<Catalog>;
  /** Closes the newest catalog and removes its files. */
  dispose(): Promise<void>;
}

export interface Suite {
  readonly volatile: boolean;
  it(name: string, body: (subject: CatalogUnderTest) => Promise<void>): void;
}

export const TENANT = "somebody";

export async function create(
  catalog: Catalog,
  id: string,
  rest: Partial<Omit<CreateDocument, "op" | "id">> = {},
): Promise<Document> {
  const [document] = await catalog.write(TENANT, [
    { op: "create", kind: "thing", id, body: { id }, ...rest },
  ]);
  assert.ok(document);
  return document;
}

export async function idsOf(catalog: Catalog, query: Partial<ListQuery> = {}): Promise<string[]> {
  const documents = await catalog.list(TENANT, { kind: "thing", limit: 100, ...query });
  return documents.map(({ id }) => id);
}

export async function store(catalog: Catalog, text: string): Promise<HeldBytes> {
  return catalog.bytes.write(chunksOf(text));
}

export async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7);
}

export async function textOf(stored: StoredBytes | undefined): Promise<string | undefined> {
  return stored && new Response(stored.stream()).text();
}

export async function failsWith(code: ErrorCode, work: Promise<unknown>): Promise<SluiceError> {
  let failure: unknown;
  await work.catch((error: unknown) => (failure = error));
  assert.ok(failure instanceof SluiceError, `expected a SluiceError ${code}, got ${String(failure)}`);
  assert.equal(failure.code, code);
  return failure;
}
