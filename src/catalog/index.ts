export type {
  Bytes,
  Catalog,
  Change,
  CreateDocument,
  Document,
  HeldBytes,
  ListQuery,
  RemoveDocument,
  ReplaceDocument,
  StoredBytes,
  TimeRange,
  WriteBytesOptions,
} from "./port.ts";
export { createMemoryCatalog, type MemoryCatalogOptions } from "./memory.ts";
export { type CatalogOptions, createCatalog } from "./sqlite/catalog.ts";
