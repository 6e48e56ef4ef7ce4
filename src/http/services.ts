import type { Engine } from "../sessions/port.ts";
import type { WebhookStats } from "./anthropic/webhooks/endpoint.ts";
import type { BodyLimits } from "./body.ts";
import type { Drafts } from "./drafts.ts";
import type { Meter } from "./meter.ts";
import type { EventStreams } from "./sse.ts";

/** What routes work with. */
export interface Services {
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly meter: Meter;
  readonly limits: BodyLimits;
  readonly drafts: Drafts;
  readonly version: string;
  /** What became of the webhooks, where there are endpoints for them. */
  readonly webhooks?: Readonly<WebhookStats> | undefined;
}
