import type { Engine } from "../sessions/port.ts";
import type { WebhookStats } from "./anthropic/webhooks/delivery.ts";
import type { BodyLimits } from "./body/read.ts";
import type { Uploads } from "./body/uploads.ts";
import type { Meter } from "./meter.ts";
import type { EventStreams } from "./stream/sse.ts";

/** The services that every route may use. */
export interface Services {
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly meter: Meter;
  readonly limits: BodyLimits;
  readonly uploads: Uploads;
  readonly version: string;
  /** Absent if no webhook endpoint is configured. */
  readonly webhooks?: Readonly<WebhookStats> | undefined;
}
