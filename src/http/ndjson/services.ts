import type { Catalog } from "../../catalog/port.ts";
import type { Logger } from "../context.ts";
import type { Services } from "../services.ts";
import type { Conversations } from "./conversations.ts";
import type { NdjsonSettings, Tickets } from "./dialect.ts";
import type { TurnReaders } from "./readers.ts";

/** The services that every route of the dialect may use. */
export interface NdjsonServices extends Services {
  readonly catalog: Catalog;
  readonly conversations: Conversations;
  readonly readers: TurnReaders;
  readonly tickets: Tickets;
  readonly settings: NdjsonSettings;
  readonly logger: Logger;
  /** The agent of conversations that name none. */
  readonly defaultAgent: string;
}
