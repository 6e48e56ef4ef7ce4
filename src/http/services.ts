import type { Catalog } from "../catalog/port.ts";
import type { Engine } from "../sessions/port.ts";
import type { RouteTable } from "./access/route-table.ts";
import type { TokenWatch } from "./access/token-watch.ts";
import type { Tokens } from "./access/tokens.ts";
import type { BodyLimits } from "./body/read.ts";
import type { Uploads } from "./body/uploads.ts";
import type { Logger } from "./context.ts";
import type { Meter } from "./meter.ts";
import type { Nodes } from "./nodes/port.ts";
import type { EventStreams } from "./stream/sse.ts";
import type { OtlpExporter } from "./otlp/exporter.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

/** The services that every route may use. */
export interface Services {
  /** Reaches every session: routes use the engine of their call instead. */
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly meter: Meter;
  readonly logger: Logger;
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
  /** Absent where the server sends none. */
  readonly webhooks?: Webhooks | undefined;
  /** Absent where this is the only server of its log. */
  readonly nodes?: Nodes | undefined;
  readonly otlp?: Pick<OtlpExporter, "stats"> | undefined;
}
