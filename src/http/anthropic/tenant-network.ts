import type { PublicAuth } from "../../dialects/anthropic/resources/credential-auth.ts";
import type { EnvironmentConfig } from "../../dialects/anthropic/resources/environment.ts";
import { refuse } from "../../dialects/anthropic/resources/resource.ts";
import { findPrivateHost, isPrivateHost } from "../../sessions/hosts.ts";
import { isWorkspace } from "../auth.ts";
import { publicFetch } from "../public-network.ts";

/** The `fetch` of a tenant. That of a workspace reaches public addresses alone. */
export function fetcherOf(tenant: string): (url: string, init: RequestInit) => Promise<Response> {
  return isWorkspace(tenant) ? publicFetch : fetch;
}

/**
 * Refuses addresses of this machine and its network in the resources of a workspace. Names are checked with
 * each connection, as they may resolve to another address later.
 */
export const assertReachable = {
  environment(tenant: string, config: EnvironmentConfig): void {
    if (config.type !== "cloud" || config.networking.type !== "limited") return;
    assertHosts(tenant, "config.networking.allowed_hosts", config.networking.allowed_hosts);
  },
  servers(tenant: string, servers: readonly { readonly name: string; readonly url: string }[]): void {
    for (const { name, url } of servers) assertUrl(tenant, `mcp_servers: ${name}`, url);
  },
  credential(tenant: string, auth: PublicAuth): void {
    if (auth.type === "environment_variable") {
      if (auth.networking.type === "limited")
        assertHosts(tenant, "auth.networking.allowed_hosts", auth.networking.allowed_hosts);
      return;
    }
    assertUrl(tenant, "auth.mcp_server_url", auth.mcp_server_url);
    if (auth.type === "mcp_oauth" && auth.refresh)
      assertUrl(tenant, "auth.refresh.token_endpoint", auth.refresh.token_endpoint);
  },
  repository(tenant: string, url: string): void {
    assertUrl(tenant, "resources", url);
  },
};

function assertUrl(tenant: string, field: string, url: string): void {
  if (isWorkspace(tenant) && isPrivateHost(new URL(url).hostname)) throw toRefusal(field, url);
}

function assertHosts(tenant: string, field: string, hosts: readonly string[]): void {
  const found = isWorkspace(tenant) ? findPrivateHost(hosts) : undefined;
  if (found !== undefined) throw toRefusal(field, found);
}

function toRefusal(field: string, address: string): Error {
  return refuse(
    `${field}: ${address} is an address of this machine or its network, which a workspace cannot reach. Use a host of the internet.`,
  );
}
