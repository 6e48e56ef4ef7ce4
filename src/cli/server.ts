import { type Catalog, createCatalog } from "../catalog/index.ts";
import type { Webhooks } from "../http/anthropic/webhooks/webhooks.ts";
import { createApp } from "../http/app.ts";
import { OWN_ADDRESSES } from "../http/origin.ts";
import { listen, type Listening } from "../http/server.ts";
import type { Engine } from "../sessions/index.ts";
import { readVersion } from "./version.ts";

export interface ServerSettings {
  readonly host: string;
  readonly port: number;
  readonly token: string | undefined;
  /** Further names that it is called by. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Pages of other origins that may call it. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** What clients keep beside their sessions; the caller's to close. */
  readonly catalog: Catalog;
  /** The agent of sessions that name none. */
  readonly defaultAgent?: string | undefined;
  readonly webhooks?: Webhooks | undefined;
  /** Further keys of the Anthropic dialect, each with its workspace. */
  readonly workspaces?: Readonly<Record<string, string>> | undefined;
  /** How many requests a minute each key may send there. */
  readonly rateLimit?: number | undefined;
  /** Where files lie while they are uploaded. */
  readonly drafts?: string | undefined;
}

export function openCatalog(dataDir: string): Catalog {
  return createCatalog({ folder: dataDir });
}

export function startServer(engine: Engine, settings: ServerSettings): Promise<Listening> {
  const { host, port, token, catalog, defaultAgent, webhooks, workspaces, rateLimit } = settings;
  // Bound to every address, a server is called by any of them; names it has to be told.
  const isEverywhere = /^(0\.0\.0\.0|\[?::\]?)$/.test(host);
  const allowedHosts = [isEverywhere ? OWN_ADDRESSES : host, ...(settings.allowedHosts ?? [])];
  const { allowedOrigins = [] } = settings;
  const options = {
    engine,
    token: token ?? false,
    version: readVersion(),
    allowedHosts,
    allowedOrigins,
    ...(settings.drafts !== undefined && { drafts: settings.drafts }),
  } as const;
  const app = createApp({
    ...options,
    catalog,
    ...(defaultAgent === undefined ? {} : { defaultAgent }),
    ...(webhooks && { webhooks }),
    ...(workspaces && { workspaces }),
    ...(rateLimit !== undefined && { rateLimit: { perMinute: rateLimit } }),
  });
  return listen({ app, host, port });
}
