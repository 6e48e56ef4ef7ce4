import type { Catalog } from "../catalog/port.ts";
import type { Engine } from "../sessions/port.ts";
import type { RouteTable } from "./access/route-table.ts";
import type { TokenWatch } from "./access/token-watch.ts";
import type { Tokens } from "./access/tokens.ts";
import type { WebhookStats } from "./anthropic/webhooks/delivery.ts";
import type { BodyLimits } from "./body/read.ts";
import type { Uploads } from "./body/uploads.ts";
import type { Meter } from "./meter.ts";
import type { EventStreams } from "./stream/sse.ts";

/** The services that every route may use. */
export interface Services {
  /** Reaches every session: routes use the engine of their call instead. */
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly meter: Meter;
  readonly limits: BodyLimits;
  readonly uploads: Uploads;
  /** The scope of every route. */
  readonly routes: RouteTable;
  /** Ends responses with their token. */
  readonly watch: TokenWatch;
  /** Absent where the server has no catalog. */
  readonly tokens?: Tokens | undefined;
  readonly catalog?: Catalog | undefined;
  readonly version: string;
  /** Absent if no webhook endpoint is configured. */
  readonly webhooks?: Readonly<WebhookStats> | undefined;
}
