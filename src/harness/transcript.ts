/** What every decoder remembers from line to line, whatever the CLI. Plain JSON, never changed in place. */
export interface Transcript<Ask = string> {
  readonly prefix: string;
  /** How many ids have been given out. */
  readonly count: number;
  /** Texts and thoughts that stream, by native id. */
  readonly texts: Readonly<Record<string, OpenText>>;
  /** Tool calls of the running turn, by native id. */
  readonly calls: Readonly<Record<string, OpenCall>>;
  /** Model requests that run, by native id. */
  readonly requests: Readonly<Record<string, OpenRequest>>;
  /** What waits for an answer: our id, and what the adapter needs to carry the answer. */
  readonly asks: Readonly<Record<string, Ask>>;
  /** A text whose stream was cut: the CLI is going to say it again. */
  readonly torn?: TornText;
}

export interface OpenText {
  readonly item: string;
  readonly kind: TextKind;
  /** All of it so far. */
  readonly text: string;
  /** What had been shown before the cut and is awaited again, letter for letter. */
  readonly replay?: string;
  /** The sub-agent's call under which it happens. */
  readonly parent?: string;
}

export type TextKind = "text" | "reasoning";

export interface OpenCall {
  readonly item: string;
  readonly name: string;
  /** Whether its arguments still stream. */
  readonly writing?: boolean;
  /** The item of its result, once it runs. */
  readonly result?: string;
  readonly parent?: string;
}

export interface OpenRequest {
  readonly id: string;
  readonly model?: string;
  readonly parent?: string;
}

export interface TornText {
  readonly native: string;
  readonly text: OpenText;
}

export function emptyTranscript<Ask = string>(idPrefix: string): Transcript<Ask> {
  return { prefix: idPrefix, count: 0, texts: {}, calls: {}, requests: {}, asks: {} };
}

/** What has an id that says what it is; an item has none of these. */
export type IdKind = "perm" | "ques" | "treq" | "mreq";

/** Unique among the session's processes by the prefix that the engine gave. */
export function toId(prefix: string, count: number, kind?: IdKind): string {
  return `${kind === undefined ? prefix : `${kind}_${prefix.replace(/^itm_/, "")}`}${count}`;
}

export { own } from "../contract/ownKeys.ts";

export function without<T>(map: Readonly<Record<string, T>>, key: string): Record<string, T> {
  const { [key]: _, ...rest } = map;
  return rest;
}
