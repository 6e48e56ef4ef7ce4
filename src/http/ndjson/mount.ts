import type { Hono } from "hono";
import type { Catalog } from "../../catalog/port.ts";
import type { AppEnv, Logger } from "../context.ts";
import { createMount } from "../operation.ts";
import type { Services } from "../services.ts";
import { Conversations } from "./conversations.ts";
import type { NdjsonServices, NdjsonSettings, Tickets } from "./dialect.ts";
import { mountHistory } from "./history.ts";
import { TurnReaders } from "./readers.ts";
import { mountResults } from "./results.ts";
import { mountRuns } from "./runs.ts";

export interface NdjsonOptions {
  readonly catalog: Catalog;
  readonly tickets: Tickets;
  readonly settings: NdjsonSettings;
  readonly logger: Logger;
  readonly defaultAgent?: string | undefined;
}

/** The agent of conversations that name none, on a server without a default agent. */
const FALLBACK_AGENT = "scripted";

/** Mounts the NDJSON dialect. The returned function ends the waits for absent readers. */
export function mountNdjson(app: Hono<AppEnv>, given: Services, options: NdjsonOptions): () => void {
  const { catalog, tickets, settings, logger, defaultAgent = FALLBACK_AGENT } = options;
  const readers = new TurnReaders(given.engine, logger);
  const conversations = new Conversations(catalog, given.engine.log);
  const own = { catalog, conversations, readers, tickets, settings, logger, defaultAgent };
  const services: NdjsonServices = { ...given, ...own };
  const mount = createMount(app, given);
  mountRuns(mount, services);
  mountResults(mount, services);
  mountHistory(mount, services);
  return () => readers.close();
}
