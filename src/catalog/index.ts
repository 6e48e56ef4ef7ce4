export type { Bytes, HeldBytes, StoredBytes, WriteBytesOptions } from "./port.ts";
export { createMemoryCatalog, type MemoryCatalogOptions } from "./memory.ts";
export type {
  Catalog,
  Change,
  CreateDocument,
  Document,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
  TimeRange,
} from "./port.ts";
export { type CatalogOptions, createCatalog } from "./sqlite/open.ts";
