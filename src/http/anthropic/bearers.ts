import type { Catalog } from "../../catalog/port.ts";
import { openCredential } from "./credential-secrets.ts";
import type { Shelves } from "./shelves.ts";

/** What opens an MCP server: the token of the first credential for its address in these vaults. */
export async function findBearer(
  { shelves, catalog }: { shelves: Shelves; catalog: Catalog },
  owner: string,
  { vaults, url }: { vaults: readonly string[]; url: string },
): Promise<string | undefined> {
  for (const parent of vaults) {
    for (const { id, body } of await shelves.credentials.list(owner, { parent, limit: 100 })) {
      const { auth } = body;
      if (auth.type === "environment_variable" || !isSameServer(auth.mcp_server_url, url)) continue;
      const secrets = await openCredential(catalog, owner, id);
      const token = auth.type === "static_bearer" ? secrets.token : secrets.access_token;
      if (token !== undefined) return token;
    }
  }
  return undefined;
}

function isSameServer(one: string, other: string): boolean {
  return toPlain(one) === toPlain(other);
}

function toPlain(url: string): string {
  return new URL(url).href.replace(/\/+$/, "");
}
