import type { Catalog } from "../../catalog/port.ts";
import type { CredentialBody } from "../../dialects/anthropic/resources/credential.ts";
import { refreshCredential } from "./credential-refresh.ts";
import { openCredential } from "./credential-secrets.ts";
import type { Shelves } from "./shelves.ts";

interface Vaults {
  readonly catalog: Catalog;
  readonly shelves: Shelves;
}

/** What opens an MCP server. */
export interface Bearer {
  readonly token: string;
  /** The token that is to be used once this one was refused; undefined where there is no other. */
  renew(): Promise<string | undefined>;
}

/** A token that is about to expire would be refused on the way. */
const EARLY_MS = 30_000;

/** The token of the first credential for the server's address in these vaults, renewed where its time is over. */
export async function findBearer(
  vaults: Vaults,
  owner: string,
  { vaults: ids, url }: { vaults: readonly string[]; url: string },
): Promise<Bearer | undefined> {
  for (const parent of ids) {
    for (const { id, body } of await vaults.shelves.credentials.list(owner, { parent, limit: 100 })) {
      const { auth } = body;
      if (auth.type === "environment_variable" || !isSameServer(auth.mcp_server_url, url)) continue;
      const secrets = await openCredential(vaults.catalog, owner, id);
      const token = auth.type === "static_bearer" ? secrets.token : secrets.access_token;
      if (token === undefined) continue;
      const renew = async (): Promise<string | undefined> =>
        auth.type === "mcp_oauth" ? (await refreshCredential(vaults, owner, id, token)).token : undefined;
      // Where there is no new one, the server may still know better than the clock.
      return { token: (isOver(auth) ? await renew() : undefined) ?? token, renew };
    }
  }
  return undefined;
}

function isOver(auth: CredentialBody["auth"]): boolean {
  if (auth.type !== "mcp_oauth" || auth.expires_at === null) return false;
  return Date.parse(auth.expires_at) <= Date.now() + EARLY_MS;
}

function isSameServer(one: string, other: string): boolean {
  return toPlain(one) === toPlain(other);
}

function toPlain(url: string): string {
  return new URL(url).href.replace(/\/+$/, "");
}
