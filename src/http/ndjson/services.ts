import type { Catalog } from "../../catalog/port.ts";
import type { Logger } from "../logger.ts";
import type { Services } from "../services.ts";
import type { Audience } from "./audience.ts";
import type { Conversations } from "./conversations.ts";
import type { NdjsonSettings } from "./settings.ts";
import type { Tickets } from "./tickets.ts";

/** What the routes of this dialect work with. */
export interface NdjsonServices extends Services {
  readonly catalog: Catalog;
  readonly conversations: Conversations;
  readonly audience: Audience;
  readonly tickets: Tickets;
  readonly settings: NdjsonSettings;
  readonly logger: Logger;
  /** What runs a conversation that names no agent. */
  readonly defaultAgent: string;
}
