import type { Item, PlanEntry } from "../../contract/index.ts";
import { type Cursor, HOME, type Page } from "./pen.ts";

/** The transcript's state between two events; immutable. */
export interface TranscriptState {
  readonly page: Page;
  readonly cursor: Cursor;
  /** The last block on the screen: an item's id, "status" for any status item, or the type of an event. */
  readonly last: string | undefined;
  readonly items: Readonly<Record<string, OpenItem>>;
  /** Each call twice, by its item's id and by its call id: a late result has one of them. */
  readonly calls: Readonly<Record<string, KnownCall>>;
  /** The plan as it was last shown. */
  readonly plan: readonly PlanEntry[];
  readonly turnStarted: string | undefined;
  /** The count of unreadable lines of the agent in this turn. */
  readonly unread: number;
  /** Labels of status items that repeat a printed event. Such items are not printed. */
  readonly shadowed: readonly string[];
}

export interface KnownCall {
  /** The id of its item. */
  readonly item: string;
  readonly header: string;
  /** The diffs that were printed with the call. */
  readonly diffs: readonly string[];
}

export interface OpenItem {
  readonly kind: Item["kind"];
  readonly role: Item["role"];
  readonly reasoning: boolean;
  readonly streamed: boolean;
  /** For a result: the item id of its call. */
  readonly call: string | undefined;
  readonly output: Output;
}

/** A tool's output: the first lines are printed as they come, the last ones only after a failure. */
export interface Output {
  readonly shown: number;
  readonly total: number;
  /** The unprinted text: the last line so far, or all of a withheld output. */
  readonly partial: string;
  readonly last: readonly string[];
}

export const NO_OUTPUT: Output = { shown: 0, total: 0, partial: "", last: [] };

export function initialTranscript(page: Page): TranscriptState {
  return {
    page,
    cursor: HOME,
    last: undefined,
    items: {},
    calls: {},
    plan: [],
    turnStarted: undefined,
    unread: 0,
    shadowed: [],
  };
}
