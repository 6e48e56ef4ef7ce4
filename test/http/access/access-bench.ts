import { type Catalog, createMemoryCatalog } from "../../../src/catalog/index.ts";
import type { CreateToken } from "../../../src/contract/index.ts";
import { type AppBench, type CallOptions, openApp } from "../app-bench.ts";

export const OPERATOR = "the-server's-own";

export interface AccessBench extends AppBench {
  /** A request with a token. */
  as(token: string, method: string, path: string, options?: CallOptions): Promise<Response>;
  token(wanted: CreateToken): Promise<{ id: string; token: string }>;
}

/** A server with a token, two workspaces, and every dialect. */
export async function openAccess(catalog: Catalog = createMemoryCatalog()): Promise<AccessBench> {
  const bench = await openApp({
    token: OPERATOR,
    catalog,
    workspaces: { "key-of-a": "a", "key-of-b": "b" },
  });
  const as: AccessBench["as"] = (token, method, path, { headers, ...options } = {}) =>
    bench.call(method, path, {
      ...options,
      headers: {
        authorization: `Bearer ${token}`,
        "anthropic-beta": "managed-agents-2026-04-01",
        ...headers,
      },
    });
  return {
    ...bench,
    as,
    async token(wanted) {
      const response = await as(OPERATOR, "POST", "/v1/tokens", { json: wanted });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as { id: string; token: string };
    },
  };
}

/** Loads the routes of every dialect into the table. */
export async function loadDialects({ as }: AccessBench): Promise<void> {
  const paths = ["/anthropic/v1/x", "/ag-ui/x/y/z", "/ndjson/x", "/docs/x"];
  for (const path of paths) await as(OPERATOR, "GET", path);
}
