import type { ContentPart, EventData, EventError, Item, PlanEntry, Usage } from "../contract/index.ts";
import { callItem, planItem, resultItem, statusItem, wholeItem } from "./items.ts";
import type { Place } from "./pen.ts";
import { TextScribe } from "./textScribe.ts";
import { own, without } from "./transcript.ts";

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
export class Scribe<Ask = string> extends TextScribe<Ask> {
  /** A tool call whose arguments are still being written. */
  startCall(native: string, call: Place & { name: string }): boolean {
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

  /** A call whose arguments are known, whether or not they were streamed before. */
  call(native: string, call: Place & { name: string; input: unknown }): boolean {
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

  /** The tool runs: what follows under its id is its output. */
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

  /** A call's one result; it is closed by it. */
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

  /** An item that is complete as soon as it is there. */
  whole(native: string | undefined, rest: Pick<Item, "kind" | "role" | "content">, place: Place = {}): void {
    const parent = this.itemOf(place);
    this.dropTorn();
    const item = wholeItem(this.nextId(), native, { ...rest, parent });
    this.put({ type: "item.started", data: { item: { ...item, status: "in_progress" } } }, parent);
    this.put({ type: "item.completed", data: { item } }, parent);
  }

  /** A line of news that is no message: a plan, a retry, a compaction. */
  status(label: string, options: Place & { detail?: string | undefined } = {}): void {
    this.whole(undefined, statusItem(label, options.detail), options);
  }

  plan(entries: readonly PlanEntry[], place: Place = {}): void {
    this.add({ type: "plan.updated", data: { entries: [...entries] } }, place);
    this.whole(undefined, planItem(entries), place);
  }

  compacted(data: EventData<"context.compacted">, place: Place = {}): void {
    this.add({ type: "context.compacted", data }, place);
    this.status("context compacted", { ...place, detail: data.summary });
  }

  startModel(native: string, options: Place & { model?: string | undefined } = {}): boolean {
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

  /** `ask` is what the adapter needs to carry the answer; our id of the permission is answered. */
  askPermission(
    ask: Ask,
    { action, metadata, ...place }: Place & { action: string; metadata: PermissionMetadata },
  ): string {
    const id = this.nextId("perm");
    this.add(
      { type: "permission.requested", data: { permission_id: id, action, status: "requested", metadata } },
      place,
    );
    this.remember({ asks: { ...this.transcript.asks, [id]: ask } });
    return id;
  }

  askQuestion(
    ask: Ask,
    {
      prompt,
      options,
      source,
      ...place
    }: Place & { prompt: string; options: readonly string[]; source?: "daemon" },
  ): string {
    const id = this.nextId("ques");
    const data = { question_id: id, prompt, options: [...options], status: "requested" as const };
    this.add({ type: "question.requested", data, ...(source === undefined ? {} : { source }) }, place);
    this.remember({ asks: { ...this.transcript.asks, [id]: ask } });
    return id;
  }

  askTool(
    ask: Ask,
    { name, input, callId, ...place }: Place & { name: string; input: unknown; callId?: string | undefined },
  ): string {
    const id = this.nextId("treq");
    const data = { request_id: id, name, input, ...(callId === undefined ? {} : { call_id: callId }) };
    this.add({ type: "tool.requested", data }, place);
    this.remember({ asks: { ...this.transcript.asks, [id]: ask } });
    return id;
  }

  /** Our id of what waits, by what the adapter kept of it. */
  findAsk(matches: (ask: Ask) => boolean): string | undefined {
    return Object.entries(this.transcript.asks).find(([, ask]) => matches(ask))?.[0];
  }

  /** Nobody needs to carry an answer there any more. */
  forgetAsk(id: string): void {
    this.remember({ asks: without(this.transcript.asks, id) });
  }

  /** A turn's end is a clean cut: what is open is closed by the engine. */
  endTurn(data: Omit<EventData<"turn.ended">, "turn_id">): void {
    this.dropTorn();
    this.facts.push({ type: "turn.ended", data: { turn_id: "", ...data } });
    this.forgetAll();
  }
}

/** Counts that nobody could have counted are left out. */
function toUsage(usage: Usage): Usage {
  const counts = Object.entries(usage).filter(([name, count = -1]) =>
    name === "cost_usd" ? Number.isFinite(count) && count >= 0 : Number.isSafeInteger(count) && count >= 0,
  );
  return Object.fromEntries(counts) as Usage;
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
