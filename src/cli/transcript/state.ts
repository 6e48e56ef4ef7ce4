import type { Item, PlanEntry } from "../../contract/index.ts";
import { type Cursor, HOME, type Page } from "./pen.ts";

/** What the transcript remembers between two events. Never changed in place. */
export interface TranscriptState {
  readonly page: Page;
  readonly cursor: Cursor;
  /** The item or call whose block stands at the end of the screen. */
  readonly owner: string | undefined;
  readonly items: Readonly<Record<string, OpenItem>>;
  /** Each call by its item and by its call id, so that a result which comes late can be told apart. */
  readonly calls: Readonly<Record<string, KnownCall>>;
  /** The plan as it was last shown. */
  readonly plan: readonly PlanEntry[];
  readonly turnStarted: string | undefined;
  /** How many lines of the agent's could not be read in this turn. */
  readonly unread: number;
  /** A plain item that repeats what an extension has just shown is not shown again. */
  readonly shadowed: readonly string[];
}

export interface KnownCall {
  readonly item: string;
  readonly header: string;
  /** Those that were shown with it. */
  readonly diffs: readonly string[];
}

export interface OpenItem {
  readonly kind: Item["kind"];
  readonly role: Item["role"];
  readonly reasoning: boolean;
  readonly streamed: boolean;
  /** The item of the call that a result belongs to. */
  readonly call: string | undefined;
  readonly output: Output;
}

/** The lines of a tool's output: the first are shown as they come, the last are kept for the case that it failed. */
export interface Output {
  readonly shown: number;
  readonly total: number;
  readonly partial: string;
  readonly last: readonly string[];
}

export const NO_OUTPUT: Output = { shown: 0, total: 0, partial: "", last: [] };

export function initialTranscript(page: Page): TranscriptState {
  return {
    page,
    cursor: HOME,
    owner: undefined,
    items: {},
    calls: {},
    plan: [],
    turnStarted: undefined,
    unread: 0,
    shadowed: [],
  };
}
