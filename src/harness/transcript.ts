import type { ContentPart, Item, PlanEntry } from "../contract/index.ts";
import { own } from "../contract/own-keys.ts";

/** The decoder state that all adapters share. Plain JSON, never changed in place. */
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
  /** Open asks: our id, and the adapter's data for the answer. */
  readonly asks: Readonly<Record<string, Ask>>;
  /** A text whose stream was cut. The CLI will repeat it. */
  readonly torn?: TornText;
}

export interface OpenText {
  readonly item: string;
  readonly kind: TextKind;
  /** The whole text so far. */
  readonly text: string;
  /** The text before the cut, which is expected again. */
  readonly replay?: string;
  /** Whether the text was too long. Its end says so, and it grows no more. */
  readonly full?: true;
  /** The item of the sub-agent's call that it belongs to. */
  readonly parent?: string;
}

export type TextKind = "text" | "reasoning";

interface OpenCall {
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

interface TornText {
  readonly native: string;
  readonly text: OpenText;
}

export function emptyTranscript<Ask = string>(idPrefix: string): Transcript<Ask> {
  return { prefix: idPrefix, count: 0, texts: {}, calls: {}, requests: {}, asks: {} };
}

/** Kinds of ids with a prefix of their own. An item's id has the engine's prefix alone. */
export type IdKind = "perm" | "ques" | "treq" | "mreq";

/** An id that is unique in the session: the engine gives each process another prefix. */
export function toId(prefix: string, count: number, kind?: IdKind): string {
  return `${kind === undefined ? prefix : `${kind}_${prefix.replace(/^itm_/, "")}`}${count}`;
}

export { own };

export function without<T>(map: Readonly<Record<string, T>>, key: string): Record<string, T> {
  const { [key]: _, ...rest } = map;
  return rest;
}

/** Finds an open ask, with our id of it, by the adapter's data. */
export function findAsk<Ask>(
  { asks }: Transcript<Ask>,
  matches: (ask: Ask) => boolean,
): [id: string, ask: Ask] | undefined {
  return Object.entries(asks).find(([, ask]) => matches(ask));
}

/** The state after the answer to an ask. */
export function withoutAsk<State extends { readonly transcript: Transcript<unknown> }>(
  state: State,
  id: string,
): State {
  const { transcript } = state;
  return { ...state, transcript: { ...transcript, asks: without(transcript.asks, id) } };
}

/** The agent that a fact comes from: a sub-agent by the native id of its call, else the main agent. */
export interface Origin {
  readonly parent?: string | undefined;
  /** The item of that call, where the call has ended already. */
  readonly parentItem?: string | undefined;
}

// Items of texts, calls and results, in one shape for all CLIs.

export function messageItem(
  native: string,
  open: Pick<OpenText, "item" | "kind" | "parent">,
  { status, text }: { status: Item["status"]; text: string },
): Item {
  const part: ContentPart =
    open.kind === "text" ? { type: "text", text } : { type: "reasoning", text, visibility: "public" };
  return {
    item_id: open.item,
    native_item_id: native,
    ...(open.parent === undefined ? {} : { parent_id: open.parent }),
    kind: "message",
    role: "assistant",
    status,
    content: [part],
  };
}

export function callItem(
  native: string,
  call: { item: string; name: string; parent?: string | undefined },
  text: string,
): Item {
  return {
    item_id: call.item,
    native_item_id: native,
    ...(call.parent === undefined ? {} : { parent_id: call.parent }),
    kind: "tool_call",
    role: "assistant",
    status: "in_progress",
    content: [{ type: "tool_call", name: call.name, arguments: text, call_id: native }],
  };
}

export function resultItem(
  native: string,
  ids: { call: string; result: string },
  rest: Pick<Item, "status" | "content">,
): Item {
  return {
    item_id: ids.result,
    native_item_id: native,
    parent_id: ids.call,
    kind: "tool_result",
    role: "tool",
    ...rest,
  };
}

/** An item that starts and completes at once. */
export function wholeItem(
  id: string,
  native: string | undefined,
  { parent, ...rest }: Pick<Item, "kind" | "role" | "content"> & { parent: string | undefined },
): Item {
  return {
    item_id: id,
    ...(native === undefined ? {} : { native_item_id: native }),
    ...(parent === undefined ? {} : { parent_id: parent }),
    ...rest,
    status: "completed",
  };
}

/** A plan as a status item with its progress, for views without the event `plan.updated`. */
export function planItem(entries: readonly PlanEntry[]): Pick<Item, "kind" | "role" | "content"> {
  const { content, ...rest } = statusItem("plan", progressOf(entries));
  return { ...rest, content: [...content, { type: "json", json: { entries: [...entries] } }] };
}

/** A status item, such as a plan, a retry or a compaction. */
export function statusItem(label: string, detail?: string): Pick<Item, "kind" | "role" | "content"> {
  const part: ContentPart = { type: "status", label, ...(detail === undefined ? {} : { detail }) };
  return { kind: "status", role: "assistant", content: [part] };
}

function progressOf(entries: readonly PlanEntry[]): string {
  const done = entries.filter((entry) => entry.status === "completed").length;
  const now = entries.find((entry) => entry.status === "in_progress");
  return `${done} of ${entries.length} done${now === undefined ? "" : `: ${now.content}`}`;
}
