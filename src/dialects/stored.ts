import type { EventType } from "../contract/index.ts";

/** A committed event as dialects see it: the log's own text, parsed only where a dialect needs to. */
export interface StoredEventText {
  readonly sequence: number;
  readonly type: EventType;
  readonly body: string;
  readonly raw?: string;
}
