import type {
  ContentPart,
  EventData,
  EventError,
  Item,
  PlanEntry,
  SpoolLine,
  Usage,
} from "../contract/index.ts";
import type { HarnessFact } from "./port.ts";
import {
  emptyTranscript,
  own,
  type OpenText,
  type TextKind,
  type Transcript,
  without,
} from "./transcript.ts";
import { unparsedFact } from "./unparsed.ts";

/** Where a thing stands: the native id of the sub-agent's call under which it happened. */
export interface Place {
  readonly parent?: string | undefined;
  /** The item of that call, where the call itself was answered long ago. */
  readonly parentItem?: string | undefined;
}

export interface ToolOutcome {
  readonly output: string;
  readonly failed?: boolean;
  /** Beside the output: file references, images, an exit code as JSON. */
  readonly content?: readonly ContentPart[];
}

/**
 * Writes one line's meaning down as facts. It takes a transcript and gives the next one: the class is only
 * the hand that holds the pen, so an adapter's `decode` stays a pure function around it.
 *
 * What makes no sense where it stands (a delta of nothing, a second end) is left out, never thrown:
 * the methods answer false, and the adapter decides whether the line was unparsed.
 */
export class Scribe<Ask = string> {
  readonly facts: HarnessFact[] = [];
  #transcript: Transcript<Ask>;

  constructor(transcript: Transcript<Ask>) {
    this.#transcript = transcript;
  }

  get transcript(): Transcript<Ask> {
    return this.#transcript;
  }

  /** Any fact, under the sub-agent's call where there is one. */
  add(fact: HarnessFact, place: Place = {}): void {
    this.#put(fact, this.#itemOf(place));
  }

  startText(native: string, options: Place & { kind?: TextKind } = {}): boolean {
    const { texts, torn } = this.#transcript;
    if (own(texts, native)) return false;
    const kind = options.kind ?? "text";
    const parent = this.#itemOf(options);
    if (torn && torn.text.kind === kind && torn.text.parent === parent) {
      const replay = shownOf(torn.text);
      this.#set({ torn: undefined, texts: { ...texts, [native]: { ...torn.text, text: "", replay } } });
      return true;
    }
    this.#dropTorn();
    this.#openText(native, { kind, parent });
    return true;
  }

  /** More of a text or a thought. */
  delta(native: string, delta: string): boolean {
    const open = own(this.#transcript.texts, native);
    if (!open) return false;
    if (open.replay !== undefined) return this.#replayed(native, open, delta);
    this.#keepText(native, { ...open, text: open.text + delta });
    if (delta !== "") this.#delta(open.item, native, delta, open.parent);
    return true;
  }

  /** The text's end; `text` is the whole of it where the CLI says it again. */
  endText(native: string, text?: string, options: { failed?: boolean } = {}): boolean {
    let open = own(this.#transcript.texts, native);
    if (!open) return false;
    const whole = text ?? open.text;
    // Nothing may be told at the end that was not told on the way: the deltas add up to the text.
    if (whole.length > open.text.length && whole.startsWith(open.text)) {
      this.delta(native, whole.slice(open.text.length));
      open = own(this.#transcript.texts, native) ?? open;
    }
    if (open.replay !== undefined && open.text !== open.replay) open = this.#diverge(native, open, "");
    const status = options.failed === true ? "failed" : "completed";
    this.#put(
      { type: "item.completed", data: { item: messageItem(native, open, { status, text: whole }) } },
      open.parent,
    );
    this.#set({ texts: without(this.#transcript.texts, native) });
    return true;
  }

  /** A text that comes in one piece. */
  sayWhole(native: string, text: string, options: Place & { kind?: TextKind } = {}): void {
    if (this.startText(native, options)) this.endText(native, text);
  }

  /** The stream was cut, and the CLI will say the open texts again from their beginning: shown once. */
  tear(place?: Place): void {
    const parent = place && this.#itemOf(place);
    const cut = Object.entries(this.#transcript.texts).filter(([, text]) => !place || text.parent === parent);
    const [first, ...others] = cut;
    for (const [native] of others) this.endText(native, undefined, { failed: true });
    if (!first) return;
    const [native, text] = first;
    this.#set({ texts: without(this.#transcript.texts, native), torn: { native, text } });
  }

  /** A tool call whose arguments are still being written. */
  startCall(native: string, call: Place & { name: string }): boolean {
    if (own(this.#transcript.calls, native)) return false;
    this.#dropTorn();
    const { name } = call;
    const parent = this.#itemOf(call);
    const item = this.#nextId();
    this.#put({ type: "item.started", data: { item: callItem(native, { item, name, parent }, "") } }, parent);
    const open = { item, name, writing: true, ...(parent === undefined ? {} : { parent }) };
    this.#set({ calls: { ...this.#transcript.calls, [native]: open } });
    return true;
  }

  /** More of a call's arguments, as the model writes them. */
  argumentDelta(native: string, delta: string): boolean {
    const call = own(this.#transcript.calls, native);
    if (!call?.writing || delta === "") return false;
    this.#delta(call.item, native, delta, call.parent);
    return true;
  }

  /** A call whose arguments are known, whether or not they were streamed before. */
  call(native: string, call: Place & { name: string; input: unknown }): boolean {
    const known = own(this.#transcript.calls, native);
    if (known && !known.writing) return false;
    if (!known) this.startCall(native, call);
    const open = own(this.#transcript.calls, native);
    if (!open) return false;
    const { writing: _, ...settled } = { ...open, name: call.name };
    const text = typeof call.input === "string" ? call.input : (JSON.stringify(call.input) ?? "null");
    const item = callItem(native, { ...settled, parent: open.parent }, text);
    this.#put({ type: "item.completed", data: { item: { ...item, status: "completed" } } }, open.parent);
    this.#set({ calls: { ...this.#transcript.calls, [native]: settled } });
    return true;
  }

  hasCall(native: string): boolean {
    return this.callItem(native) !== undefined;
  }

  /** The item of an open call, to remember as a sub-agent's parent. */
  callItem(native: string): string | undefined {
    return own(this.#transcript.calls, native)?.item;
  }

  /** The tool runs: what follows under its id is its output. */
  startResult(native: string): boolean {
    const call = own(this.#transcript.calls, native);
    if (!call || call.writing || call.result !== undefined) return false;
    const result = this.#nextId();
    const item = resultItem(native, { call: call.item, result }, { status: "in_progress", content: [] });
    this.#put({ type: "item.started", data: { item } }, call.parent);
    this.#set({ calls: { ...this.#transcript.calls, [native]: { ...call, result } } });
    return true;
  }

  /** Output of a tool as it comes. */
  output(native: string, delta: string): boolean {
    if (delta === "") return true;
    this.startResult(native);
    const call = own(this.#transcript.calls, native);
    if (call?.result === undefined) return false;
    this.#delta(call.result, native, delta, call.parent);
    return true;
  }

  /** A call's one result; it is closed by it. */
  result(native: string, { output, failed = false, content = [] }: ToolOutcome): boolean {
    this.startResult(native);
    const call = own(this.#transcript.calls, native);
    if (call?.result === undefined) return false;
    const parts: ContentPart[] = [{ type: "tool_result", call_id: native, output }, ...content];
    const ids = { call: call.item, result: call.result };
    const item = resultItem(native, ids, { status: failed ? "failed" : "completed", content: parts });
    this.#put({ type: "item.completed", data: { item } }, call.parent);
    this.#set({ calls: without(this.#transcript.calls, native) });
    return true;
  }

  /** An item that is complete as soon as it is there. */
  whole(native: string | undefined, item: Pick<Item, "kind" | "role" | "content">, place: Place = {}): void {
    this.#whole(native, item, this.#itemOf(place));
  }

  /** A line of news that is no message: a plan, a retry, a compaction. */
  status(label: string, options: Place & { detail?: string | undefined } = {}): void {
    const { detail } = options;
    const part: ContentPart = { type: "status", label, ...(detail === undefined ? {} : { detail }) };
    this.whole(undefined, { kind: "status", role: "assistant", content: [part] }, options);
  }

  plan(entries: readonly PlanEntry[], place: Place = {}): void {
    const done = entries.filter((entry) => entry.status === "completed").length;
    const now = entries.find((entry) => entry.status === "in_progress");
    const detail = `${done} of ${entries.length} done${now === undefined ? "" : `: ${now.content}`}`;
    this.add({ type: "plan.updated", data: { entries: [...entries] } }, place);
    this.status("plan", { ...place, detail });
  }

  compacted(data: EventData<"context.compacted">, place: Place = {}): void {
    this.add({ type: "context.compacted", data }, place);
    this.status("context compacted", { ...place, detail: data.summary });
  }

  startModel(native: string, options: Place & { model?: string | undefined } = {}): boolean {
    if (own(this.#transcript.requests, native)) return false;
    const parent = this.#itemOf(options);
    const id = this.#nextId("mreq");
    const model = options.model === undefined ? {} : { model: options.model };
    const request = { id, ...model, ...(parent === undefined ? {} : { parent }) };
    this.#put({ type: "model.started", data: { request_id: id, ...model } }, parent);
    this.#set({ requests: { ...this.#transcript.requests, [native]: request } });
    return true;
  }

  endModel(
    native: string,
    ended: { usage?: Usage | undefined; estimated?: boolean; error?: EventError | undefined },
  ): boolean {
    const request = own(this.#transcript.requests, native);
    if (!request) return false;
    const { usage, estimated = false, error } = ended;
    const data: EventData<"model.ended"> = { request_id: request.id };
    if (request.model !== undefined) data.model = request.model;
    if (usage !== undefined)
      Object.assign(data, { usage, usage_source: estimated ? "estimated" : "reported" });
    if (error !== undefined) data.error = error;
    this.#put({ type: "model.ended", data }, request.parent);
    this.#set({ requests: without(this.#transcript.requests, native) });
    return true;
  }

  /** `ask` is what the adapter needs to carry the answer; our id of the permission is answered. */
  askPermission(
    ask: Ask,
    { action, metadata, ...place }: Place & { action: string; metadata: PermissionMetadata },
  ): string {
    const id = this.#nextId("perm");
    this.add(
      { type: "permission.requested", data: { permission_id: id, action, status: "requested", metadata } },
      place,
    );
    this.#set({ asks: { ...this.#transcript.asks, [id]: ask } });
    return id;
  }

  askQuestion(
    ask: Ask,
    { prompt, options, ...place }: Place & { prompt: string; options: readonly string[] },
  ): string {
    const id = this.#nextId("ques");
    const data = { question_id: id, prompt, options: [...options], status: "requested" as const };
    this.add({ type: "question.requested", data }, place);
    this.#set({ asks: { ...this.#transcript.asks, [id]: ask } });
    return id;
  }

  askTool(
    ask: Ask,
    { name, input, callId, ...place }: Place & { name: string; input: unknown; callId?: string | undefined },
  ): string {
    const id = this.#nextId("treq");
    const data = { request_id: id, name, input, ...(callId === undefined ? {} : { call_id: callId }) };
    this.add({ type: "tool.requested", data }, place);
    this.#set({ asks: { ...this.#transcript.asks, [id]: ask } });
    return id;
  }

  /** Our id of what waits, by what the adapter kept of it. */
  findAsk(matches: (ask: Ask) => boolean): string | undefined {
    return Object.entries(this.#transcript.asks).find(([, ask]) => matches(ask))?.[0];
  }

  /** Nobody needs to carry an answer there any more. */
  forgetAsk(id: string): void {
    this.#set({ asks: without(this.#transcript.asks, id) });
  }

  /** A turn's end is a clean cut: only the ids go on. What is open is closed by the engine. */
  endTurn(data: Omit<EventData<"turn.ended">, "turn_id">): void {
    this.#dropTorn();
    this.facts.push({ type: "turn.ended", data: { turn_id: "", ...data } });
    this.#transcript = { ...emptyTranscript<Ask>(this.#transcript.prefix), count: this.#transcript.count };
  }

  unparsed(line: SpoolLine, error: string): void {
    this.facts.push(unparsedFact(line, error));
  }

  #openText(native: string, { kind, parent }: { kind: TextKind; parent: string | undefined }): OpenText {
    const open: OpenText = {
      item: this.#nextId(),
      kind,
      text: "",
      ...(parent === undefined ? {} : { parent }),
    };
    const item = messageItem(native, open, { status: "in_progress", text: "" });
    this.#put({ type: "item.started", data: { item } }, parent);
    this.#keepText(native, open);
    return open;
  }

  /** Swallows what was shown before the cut; a model that says something else is heard from the beginning. */
  #replayed(native: string, open: OpenText, delta: string): boolean {
    const { replay = "" } = open;
    const text = open.text + delta;
    if (text.length <= replay.length && replay.startsWith(text)) {
      this.#keepText(native, { ...open, text });
      return true;
    }
    if (!text.startsWith(replay)) {
      this.#diverge(native, open, delta);
      return true;
    }
    const { replay: _, ...rest } = open;
    this.#keepText(native, { ...rest, text });
    this.#delta(open.item, native, text.slice(replay.length), open.parent);
    return true;
  }

  #diverge(native: string, open: OpenText, delta: string): OpenText {
    const { kind, parent, replay = "" } = open;
    const cut = messageItem(native, open, { status: "failed", text: replay });
    this.#put({ type: "item.completed", data: { item: cut } }, parent);
    const next = { ...this.#openText(native, { kind, parent }), text: open.text + delta };
    this.#keepText(native, next);
    if (next.text !== "") this.#delta(next.item, native, next.text, parent);
    return next;
  }

  /** What was cut and is not said again stays as it was: a piece. */
  #dropTorn(): void {
    const { torn } = this.#transcript;
    if (!torn) return;
    const { native, text } = torn;
    this.#put(
      {
        type: "item.completed",
        data: { item: messageItem(native, text, { status: "failed", text: shownOf(text) }) },
      },
      text.parent,
    );
    this.#set({ torn: undefined });
  }

  #whole(
    native: string | undefined,
    rest: Pick<Item, "kind" | "role" | "content">,
    parent: string | undefined,
  ): void {
    this.#dropTorn();
    const item: Item = {
      item_id: this.#nextId(),
      ...(native === undefined ? {} : { native_item_id: native }),
      ...(parent === undefined ? {} : { parent_id: parent }),
      ...rest,
      status: "completed",
    };
    this.#put({ type: "item.started", data: { item: { ...item, status: "in_progress" } } }, parent);
    this.#put({ type: "item.completed", data: { item } }, parent);
  }

  #delta(item: string, native: string, delta: string, parent: string | undefined): void {
    this.#put({ type: "item.delta", data: { item_id: item, native_item_id: native, delta } }, parent);
  }

  #put(fact: HarnessFact, parent: string | undefined): void {
    this.facts.push(parent === undefined ? fact : { ...fact, parent_id: parent });
  }

  #itemOf({ parent, parentItem }: Place): string | undefined {
    return (parent === undefined ? undefined : this.callItem(parent)) ?? parentItem;
  }

  #nextId(kind?: "perm" | "ques" | "treq" | "mreq"): string {
    const count = this.#transcript.count + 1;
    this.#set({ count });
    const { prefix } = this.#transcript;
    return `${kind === undefined ? prefix : `${kind}_${prefix.replace(/^itm_/, "")}`}${count}`;
  }

  #keepText(native: string, text: OpenText): void {
    this.#set({ texts: { ...this.#transcript.texts, [native]: text } });
  }

  #set(change: { [K in keyof Transcript<Ask>]?: Transcript<Ask>[K] | undefined }): void {
    const { torn, ...next } = { ...this.#transcript, ...change } as Transcript<Ask>;
    this.#transcript = torn === undefined ? next : { ...next, torn };
  }
}

/** What somebody needs to see to decide, in one shape for every CLI. */
export interface PermissionMetadata {
  readonly call_id?: string;
  readonly name: string;
  readonly input: unknown;
  /** What it would do; a policy such as acceptEdits goes by it. */
  readonly kind: "edit" | "execute" | "read" | "fetch" | "mcp" | "plan" | "other";
  readonly [more: string]: unknown;
}

/** All that readers have seen: cut again while it was said again, it is more than what was said last. */
function shownOf(text: OpenText): string {
  return text.replay ?? text.text;
}

function messageItem(
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

function callItem(
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

function resultItem(
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
