import type { PublicAuth } from "../../dialects/anthropic/resources/credential-auth.ts";
import type { EnvironmentConfig } from "../../dialects/anthropic/resources/environment.ts";
import { refuse } from "../../dialects/anthropic/resources/refusal.ts";
import { findPrivateHost, isPrivateHost } from "../../sessions/publicHosts.ts";
import { isTenant } from "../auth.ts";
import { publicFetch } from "../outbound/public-fetch.ts";

/** What is fetched for an owner: a tenant's from the internet alone, whatever a name resolves to. */
export function fetcherOf(owner: string): (url: string, init: RequestInit) => Promise<Response> {
  return isTenant(owner) ? publicFetch : fetch;
}

/**
 * Refuses addresses of this machine and its network where a tenant writes them down, so that it is told at once. Names
 * are checked where they are dialled: what they stand for may change.
 */
export const assertReach = {
  environment(owner: string, config: EnvironmentConfig): void {
    if (config.type !== "cloud" || config.networking.type !== "limited") return;
    assertHosts(owner, "config.networking.allowed_hosts", config.networking.allowed_hosts);
  },
  servers(owner: string, servers: readonly { readonly name: string; readonly url: string }[]): void {
    for (const { name, url } of servers) assertUrl(owner, `mcp_servers: ${name}`, url);
  },
  credential(owner: string, auth: PublicAuth): void {
    if (auth.type === "environment_variable") {
      if (auth.networking.type === "limited")
        assertHosts(owner, "auth.networking.allowed_hosts", auth.networking.allowed_hosts);
      return;
    }
    assertUrl(owner, "auth.mcp_server_url", auth.mcp_server_url);
    if (auth.type === "mcp_oauth" && auth.refresh)
      assertUrl(owner, "auth.refresh.token_endpoint", auth.refresh.token_endpoint);
  },
  repository(owner: string, url: string): void {
    assertUrl(owner, "resources", url);
  },
};

function assertUrl(owner: string, field: string, url: string): void {
  if (isTenant(owner) && isPrivateHost(new URL(url).hostname)) throw toRefusal(field, url);
}

function assertHosts(owner: string, field: string, hosts: readonly string[]): void {
  const found = isTenant(owner) ? findPrivateHost(hosts) : undefined;
  if (found !== undefined) throw toRefusal(field, found);
}

function toRefusal(field: string, what: string): Error {
  return refuse(
    `${field}: ${what} is an address of this machine or its network, which a workspace cannot reach. Use a host of the internet.`,
  );
}
