import type { Catalog } from "../../catalog/port.ts";
import type { Logger } from "../logger.ts";
import type { Mount } from "../mount.ts";
import type { Services } from "../services.ts";
import { Audience } from "./audience.ts";
import { Conversations } from "./conversations.ts";
import { mountHistory } from "./history.ts";
import { mountResults } from "./results.ts";
import { mountRuns } from "./runs.ts";
import type { NdjsonServices } from "./services.ts";
import type { NdjsonSettings } from "./settings.ts";
import type { Tickets } from "./tickets.ts";

export interface NdjsonOptions {
  readonly catalog: Catalog;
  readonly tickets: Tickets;
  readonly settings: NdjsonSettings;
  readonly logger: Logger;
  readonly defaultAgent?: string | undefined;
}

/** The agent of conversations that name none, where the server has no other. */
const EMBEDDED_AGENT = "scripted";

/** The NDJSON dialect; the answer lets go of whoever is still waited for. */
export function mountNdjson(mount: Mount, given: Services, options: NdjsonOptions): () => void {
  const { catalog, tickets, settings, logger, defaultAgent = EMBEDDED_AGENT } = options;
  const audience = new Audience(given.engine, logger);
  const conversations = new Conversations(catalog, given.engine.log);
  const services: NdjsonServices = {
    ...given,
    catalog,
    conversations,
    audience,
    tickets,
    settings,
    logger,
    defaultAgent,
  };
  mountRuns(mount, services);
  mountResults(mount, services);
  mountHistory(mount, services);
  return () => audience.close();
}
