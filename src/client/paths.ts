import type { EventType, SluiceEvent } from "../contract/index.ts";

/** What of an event a reader wants to see. */
export interface EventView {
  /** Also the events beyond the universal transcript schema. */
  readonly extensions?: boolean;
  /** With the agent's own line in `raw`. */
  readonly includeRaw?: boolean;
}

export interface EventPageOptions extends EventView {
  /** Behind this sequence; from the oldest event that is kept on, unless it is given. */
  readonly after?: number | undefined;
  readonly limit?: number;
  readonly types?: readonly EventType[];
}

export interface EventPage {
  readonly events: readonly SluiceEvent[];
  readonly hasMore: boolean;
}

export function pathOf(session: string, rest = ""): string {
  return `/v1/sessions/${encodeURIComponent(session)}${rest && `/${rest}`}`;
}

export function toViewQuery(view: EventView): Record<string, boolean | undefined> {
  return { extensions: view.extensions, include_raw: view.includeRaw };
}

export function toPageQuery(page: EventPageOptions): Record<string, string | number | boolean | undefined> {
  return { ...toViewQuery(page), offset: page.after, limit: page.limit, types: page.types?.join(",") };
}
