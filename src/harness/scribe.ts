import type { ContentPart, EventData, EventError, Item, PlanEntry, Usage } from "../contract/index.ts";
import type { Decoded } from "./port.ts";
import { TextScribe } from "./text-scribe.ts";
import {
  callItem,
  findAsk,
  type IdKind,
  type Origin,
  own,
  planItem,
  resultItem,
  statusItem,
  type Transcript,
  wholeItem,
  without,
} from "./transcript.ts";

export interface ToolOutcome {
  readonly output: string;
  readonly failed?: boolean;
  /** Beside the output: file references, images, an exit code as JSON. */
  readonly content?: readonly ContentPart[];
}

/**
 * Writes the facts of one line. It takes a transcript and gives the next one, so an adapter's `decode` stays a pure
 * function. A call that does not fit, such as a delta of an unknown text or a second end, changes nothing and returns
 * false. The adapter then decides whether the line is unparsed.
 */
export class Scribe<Ask = string> extends TextScribe<Ask> {
  /** A tool call whose arguments are still being written. */
  startCall(native: string, call: Origin & { name: string }): boolean {
    if (own(this.transcript.calls, native)) return false;
    this.dropTorn();
    const { name } = call;
    const parent = this.itemOf(call);
    const item = this.nextId();
    this.put({ type: "item.started", data: { item: callItem(native, { item, name, parent }, "") } }, parent);
    const open = { item, name, writing: true, ...(parent === undefined ? {} : { parent }) };
    this.remember({ calls: { ...this.transcript.calls, [native]: open } });
    return true;
  }

  /** More of a call's arguments, as the model writes them. */
  argumentDelta(native: string, delta: string): boolean {
    const call = own(this.transcript.calls, native);
    if (!call?.writing || delta === "") return false;
    this.putDelta(call.item, native, delta, call.parent);
    return true;
  }

  /** A call with its complete arguments, whether or not they were streamed before. */
  call(native: string, call: Origin & { name: string; input: unknown }): boolean {
    const known = own(this.transcript.calls, native);
    if (known && !known.writing) return false;
    if (!known) this.startCall(native, call);
    const open = own(this.transcript.calls, native);
    if (!open) return false;
    const { writing: _, ...settled } = { ...open, name: call.name };
    const text = typeof call.input === "string" ? call.input : (JSON.stringify(call.input) ?? "null");
    const item = callItem(native, { ...settled, parent: open.parent }, text);
    this.put({ type: "item.completed", data: { item: { ...item, status: "completed" } } }, open.parent);
    this.remember({ calls: { ...this.transcript.calls, [native]: settled } });
    return true;
  }

  hasCall(native: string): boolean {
    return this.callItem(native) !== undefined;
  }

  /** The item of an open call, to remember as a sub-agent's parent. */
  callItem(native: string): string | undefined {
    return own(this.transcript.calls, native)?.item;
  }

  /** Keeps an item as a parent after its call has ended: a sub-agent may outlive the call that started it. */
  anchor(native: string, call: { readonly item: string; readonly name: string }): void {
    this.remember({ calls: { ...this.transcript.calls, [native]: call } });
  }

  /** Marks the tool as running: later output under its id belongs to its result. */
  startResult(native: string): boolean {
    const call = own(this.transcript.calls, native);
    if (!call || call.writing || call.result !== undefined) return false;
    const result = this.nextId();
    const item = resultItem(native, { call: call.item, result }, { status: "in_progress", content: [] });
    this.put({ type: "item.started", data: { item } }, call.parent);
    this.remember({ calls: { ...this.transcript.calls, [native]: { ...call, result } } });
    return true;
  }

  /** Output of a tool as it comes. */
  output(native: string, delta: string): boolean {
    if (delta === "") return true;
    this.startResult(native);
    const call = own(this.transcript.calls, native);
    if (call?.result === undefined) return false;
    this.putDelta(call.result, native, delta, call.parent);
    return true;
  }

  /** The one result of a call. It closes the call. */
  result(native: string, { output, failed = false, content = [] }: ToolOutcome): boolean {
    this.startResult(native);
    const call = own(this.transcript.calls, native);
    if (call?.result === undefined) return false;
    const parts: ContentPart[] = [{ type: "tool_result", call_id: native, output }, ...content];
    const ids = { call: call.item, result: call.result };
    const item = resultItem(native, ids, { status: failed ? "failed" : "completed", content: parts });
    this.put({ type: "item.completed", data: { item } }, call.parent);
    this.remember({ calls: without(this.transcript.calls, native) });
    return true;
  }

  /** An item that starts and completes at once. */
  whole(
    native: string | undefined,
    rest: Pick<Item, "kind" | "role" | "content">,
    origin: Origin = {},
  ): void {
    const parent = this.itemOf(origin);
    this.dropTorn();
    const item = wholeItem(this.nextId(), native, { ...rest, parent });
    this.put({ type: "item.started", data: { item: { ...item, status: "in_progress" } } }, parent);
    this.put({ type: "item.completed", data: { item } }, parent);
  }

  /** A status item, such as a plan, a retry or a compaction. */
  status(label: string, options: Origin & { detail?: string | undefined } = {}): void {
    this.whole(undefined, statusItem(label, options.detail), options);
  }

  plan(entries: readonly PlanEntry[], origin: Origin = {}): void {
    this.add({ type: "plan.updated", data: { entries: [...entries] } }, origin);
    this.whole(undefined, planItem(entries), origin);
  }

  compacted(data: EventData<"context.compacted">, origin: Origin = {}): void {
    this.add({ type: "context.compacted", data }, origin);
    this.status("context compacted", { ...origin, detail: data.summary });
  }

  startModel(native: string, options: Origin & { model?: string | undefined } = {}): boolean {
    if (own(this.transcript.requests, native)) return false;
    const parent = this.itemOf(options);
    const id = this.nextId("mreq");
    const model = options.model === undefined ? {} : { model: options.model };
    const request = { id, ...model, ...(parent === undefined ? {} : { parent }) };
    this.put({ type: "model.started", data: { request_id: id, ...model } }, parent);
    this.remember({ requests: { ...this.transcript.requests, [native]: request } });
    return true;
  }

  endModel(
    native: string,
    ended: { usage?: Usage | undefined; estimated?: boolean; error?: EventError | undefined },
  ): boolean {
    const request = own(this.transcript.requests, native);
    if (!request) return false;
    const { usage, estimated = false, error } = ended;
    const data: EventData<"model.ended"> = { request_id: request.id };
    if (request.model !== undefined) data.model = request.model;
    if (usage !== undefined)
      Object.assign(data, { usage: toUsage(usage), usage_source: estimated ? "estimated" : "reported" });
    if (error !== undefined) data.error = error;
    this.put({ type: "model.ended", data }, request.parent);
    this.remember({ requests: without(this.transcript.requests, native) });
    return true;
  }

  /** `ask` is the adapter's data for the answer. */
  askPermission(ask: Ask, asked: Origin & { action: string; metadata: PermissionMetadata }): void {
    const { action, metadata } = asked;
    const data = {
      permission_id: this.#openAsk("perm", ask),
      action,
      status: "requested" as const,
      metadata,
    };
    this.add({ type: "permission.requested", data }, asked);
  }

  askQuestion(
    ask: Ask,
    asked: Origin & { prompt: string; options: readonly string[]; source?: "daemon" },
  ): void {
    const { prompt, options, source } = asked;
    const question = { prompt, options: [...options], status: "requested" as const };
    const data = { question_id: this.#openAsk("ques", ask), ...question };
    this.add({ type: "question.requested", data, ...(source === undefined ? {} : { source }) }, asked);
  }

  askTool(ask: Ask, asked: Origin & { name: string; input: unknown; callId: string }): void {
    const { name, input, callId } = asked;
    const data = { request_id: this.#openAsk("treq", ask), name, input, call_id: callId };
    this.add({ type: "tool.requested", data }, asked);
  }

  #openAsk(kind: IdKind, ask: Ask): string {
    const id = this.nextId(kind);
    this.remember({ asks: { ...this.transcript.asks, [id]: ask } });
    return id;
  }

  /** Finds and forgets an ask that the CLI itself has settled. */
  takeAsk(matches: (ask: Ask) => boolean): [id: string, ask: Ask] | undefined {
    const found = findAsk(this.transcript, matches);
    if (found) this.remember({ asks: without(this.transcript.asks, found[0]) });
    return found;
  }

  /** Ends the turn. The engine closes open items. */
  endTurn(data: Omit<EventData<"turn.ended">, "turn_id">): void {
    this.dropTorn();
    this.facts.push({ type: "turn.ended", data: { turn_id: "", ...data } });
    this.forgetAll();
  }
}

/** Drops negative, fractional and infinite counts. */
function toUsage(usage: Usage): Usage {
  const counts = Object.entries(usage).filter(([name, count = -1]) =>
    name === "cost_usd" ? Number.isFinite(count) && count >= 0 : Number.isSafeInteger(count) && count >= 0,
  );
  return Object.fromEntries(counts) as Usage;
}

/** The data of a decision, in one shape for every CLI. */
export interface PermissionMetadata {
  readonly call_id?: string;
  readonly name: string;
  readonly input: unknown;
  /** The kind of its effect, for policies such as acceptEdits. */
  readonly kind: "edit" | "execute" | "read" | "fetch" | "mcp" | "plan" | "other";
  readonly [more: string]: unknown;
}

/** One line while a decoder reads it: the decoder's state, the facts of the line, and the replies to the CLI. */
export class LineReading<State extends { readonly transcript: Transcript<Ask> }, Ask> {
  readonly scribe: Scribe<Ask>;
  readonly replies: string[] = [];
  #state: State;

  constructor(state: State) {
    this.#state = state;
    this.scribe = new Scribe(state.transcript);
  }

  /** The state without the new transcript, which the scribe holds. */
  get state(): State {
    return this.#state;
  }

  /** Changes fields of the state; undefined removes a field. */
  change(part: { readonly [K in keyof State]?: State[K] | undefined }): void {
    const next: Record<string, unknown> = { ...this.#state, ...part };
    for (const key of Object.keys(part)) if (next[key] === undefined) delete next[key];
    this.#state = next as unknown as State;
  }

  decoded(): Decoded<State> {
    const { facts, transcript } = this.scribe;
    const state = transcript === this.#state.transcript ? this.#state : { ...this.#state, transcript };
    return this.replies.length === 0 ? { state, facts } : { state, facts, replies: this.replies };
  }
}
