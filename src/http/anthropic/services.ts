import type { Catalog } from "../../catalog/port.ts";
import type { Services } from "../services.ts";
import type { KeyedLock } from "./keyed-lock.ts";
import type { Shelves } from "./shelves.ts";

/** What the routes of this dialect work with. */
export interface AnthropicServices extends Services {
  readonly catalog: Catalog;
  readonly shelves: Shelves;
  readonly locks: KeyedLock;
  /** What runs a session whose model belongs to no known harness. */
  readonly defaultAgent?: string | undefined;
}
