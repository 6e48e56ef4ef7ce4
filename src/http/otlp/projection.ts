import type { EventOf, EventType, SluiceEvent } from "../../contract/index.ts";
import { NAMES, OPERATIONS, toProvider } from "./names.ts";

export type AttributeValue = string | number | readonly string[];

/** A finished span, before it is written in a wire's form. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** Of the conventions: a call that leaves the process is a client's. */
  readonly kind: "internal" | "client";
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  /** Spans that this one repeats. */
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** A code; never a text. */
  readonly error?: string;
}

/** The events that spans are made of. */
export const SPAN_EVENTS: ReadonlySet<EventType> = new Set<EventType>([
  "turn.started",
  "turn.ended",
  "model.started",
  "model.ended",
  "item.started",
  "item.completed",
  "process.ended",
]);

export interface About {
  readonly session: string;
  readonly createdAt: number;
  readonly agent: string;
  /** A digest of its parts in hex: stable, and at least 32 characters long. */
  readonly digest: (...parts: readonly (string | number)[]) => string;
}

interface OpenTool {
  readonly turn: string | undefined;
  readonly start: number;
  readonly name: string;
  readonly callId: string;
  readonly parent: string | undefined;
  /** When the first item of a sub-agent began, if the tool started one. */
  childStart?: number;
}

interface OpenRequest {
  readonly turn: string | undefined;
  readonly start: number;
  readonly data: EventOf<"model.started">["data"];
  readonly parent: string | undefined;
}

/** The spans of one session's log, in its order. Pure: the same events give the same spans. */
export class SpanProjection {
  readonly #about: About;
  readonly #turns = new Map<string, number>();
  readonly #tools = new Map<string, OpenTool>();
  readonly #requests = new Map<string, OpenRequest>();

  constructor(about: About) {
    this.#about = about;
  }

  /** Whether nothing is open: a projection that begins here gives the same spans as this one. */
  get isSettled(): boolean {
    return this.#turns.size + this.#tools.size + this.#requests.size === 0;
  }

  take(event: SluiceEvent): Span[] {
    const time = Date.parse(event.time);
    switch (event.type) {
      case "turn.started":
        this.#turns.set(event.data.turn_id, time);
        return [];
      case "turn.ended":
        return this.#endTurn(event, time);
      case "model.started": {
        const { turn_id: turn, parent_id: parent, data } = event;
        this.#requests.set(data.request_id, { turn, start: time, data, parent });
        return [];
      }
      case "model.ended":
        return [this.#endRequest(event, time)];
      case "item.started":
        return this.#startItem(event, time);
      case "item.completed":
        return this.#endItem(event, time);
      case "process.ended":
        // Requests of a gone agent get their end in the log. Tools do not.
        return [...this.#tools].flatMap(([id, tool]) =>
          this.#endTool(id, tool, { end: time, error: "process_ended" }),
        );
      default:
        return [];
    }
  }

  #endTurn({ data }: EventOf<"turn.ended">, end: number): Span[] {
    const { turn_id: turn, status, stop_reason: stop, error } = data;
    const tools = [...this.#tools].filter(([, tool]) => tool.turn === turn);
    const open = tools.flatMap(([id, tool]) =>
      this.#endTool(id, tool, { end, error: status === "completed" ? undefined : status }),
    );
    const start = this.#turns.get(turn);
    this.#turns.delete(turn);
    // Its beginning was trimmed away, or lies before the first export.
    if (start === undefined) return open;
    const { agent, session } = this.#about;
    const span: Span = {
      ...this.#ids(turn, "turn", turn),
      name: `${OPERATIONS.agent} ${agent}`,
      kind: "internal",
      start,
      end,
      attributes: {
        [NAMES.operation]: OPERATIONS.agent,
        [NAMES.conversation]: session,
        [NAMES.agentName]: agent,
        [NAMES.turn]: turn,
        [NAMES.stopReason]: stop,
      },
      links: [],
      ...(status === "failed" ? { error: error?.code ?? "failed" } : {}),
    };
    return [...open, span];
  }

  #endRequest({ data, turn_id: endTurn, parent_id: endParent }: EventOf<"model.ended">, end: number): Span {
    const known = this.#requests.get(data.request_id);
    this.#requests.delete(data.request_id);
    const turn = known?.turn ?? endTurn;
    const started = known?.data;
    const model = started?.model ?? data.model;
    const { usage } = data;
    const cached = (usage?.cache_read_tokens ?? 0) + (usage?.cache_write_tokens ?? 0);
    const provider = data.provider ?? started?.provider;
    const retried = started?.retry_of;
    return {
      ...this.#ids(turn, "request", data.request_id),
      ...this.#parent(turn, known?.parent ?? endParent),
      name: model === undefined ? OPERATIONS.chat : `${OPERATIONS.chat} ${model}`,
      kind: "client",
      start: known?.start ?? end - Math.round(data.duration_ms ?? 0),
      end,
      attributes: {
        [NAMES.operation]: OPERATIONS.chat,
        [NAMES.conversation]: this.#about.session,
        [NAMES.provider]: provider === undefined ? undefined : toProvider(provider),
        [NAMES.agentId]: started?.agent_id,
        [NAMES.turn]: turn,
        [NAMES.requestModel]: model,
        [NAMES.responseModel]: data.model,
        [NAMES.responseId]: data.response_id,
        [NAMES.finishReasons]: data.stop_reason === undefined ? undefined : [data.stop_reason],
        [NAMES.firstChunk]: data.ttft_ms === undefined ? undefined : data.ttft_ms / 1_000,
        // The conventions count cached tokens as input; our usage keeps them apart.
        [NAMES.inputTokens]: usage?.input_tokens === undefined ? undefined : usage.input_tokens + cached,
        [NAMES.outputTokens]: usage?.output_tokens,
        [NAMES.cacheReadTokens]: usage?.cache_read_tokens,
        [NAMES.cacheWriteTokens]: usage?.cache_write_tokens,
        [NAMES.reasoningTokens]: usage?.reasoning_tokens,
        [NAMES.httpStatus]: data.status,
        [NAMES.wire]: data.wire ?? started?.wire,
        [NAMES.kind]: started?.kind,
        [NAMES.attempt]: started?.attempt,
        [NAMES.servedBy]: data.served_by,
        [NAMES.cost]: usage?.cost_usd,
        [NAMES.usageSource]: data.usage_source,
      },
      links: retried === undefined ? [] : [this.#ids(turn, "request", retried)],
      ...(data.error === undefined ? {} : { error: data.error.code ?? "failed" }),
    };
  }

  #startItem({ data: { item }, turn_id: turn }: EventOf<"item.started">, start: number): Span[] {
    const above = item.parent_id === undefined ? undefined : this.#tools.get(item.parent_id);
    // A tool's own result is below it, too.
    if (above !== undefined && item.kind !== "tool_result") above.childStart ??= start;
    const part = item.content.find(({ type }) => type === "tool_call");
    if (item.kind !== "tool_call") return [];
    const call = part?.type === "tool_call" ? part : undefined;
    const parent = item.parent_id;
    this.#tools.set(item.item_id, {
      turn,
      start,
      name: call?.name ?? "unknown",
      callId: call?.call_id ?? item.item_id,
      parent,
    });
    return [];
  }

  #endItem({ data: { item } }: EventOf<"item.completed">, end: number): Span[] {
    const error = item.status === "failed" ? "tool_failed" : undefined;
    if (item.kind === "tool_result") {
      const callId = item.content.find((part) => part.type === "tool_result")?.call_id;
      const found = [...this.#tools].find(
        ([id, tool]) => id === item.parent_id || (callId !== undefined && tool.callId === callId),
      );
      return found === undefined ? [] : this.#endTool(...found, { end, error });
    }
    // A failed call gets no result.
    const tool = item.kind === "tool_call" && error !== undefined ? this.#tools.get(item.item_id) : undefined;
    return tool === undefined ? [] : this.#endTool(item.item_id, tool, { end, error });
  }

  /** The span of a tool, and of the sub-agent that it was. */
  #endTool(id: string, tool: OpenTool, { end, error }: { end: number; error: string | undefined }): Span[] {
    this.#tools.delete(id);
    const { turn, start, name, callId, childStart } = tool;
    const common = { end, links: [], kind: "internal" as const, ...(error === undefined ? {} : { error }) };
    const own = this.#ids(turn, "tool", id);
    const span: Span = {
      ...common,
      ...own,
      ...this.#parent(turn, tool.parent),
      name: `${OPERATIONS.tool} ${name}`,
      start,
      attributes: {
        [NAMES.operation]: OPERATIONS.tool,
        [NAMES.conversation]: this.#about.session,
        [NAMES.toolName]: name,
        [NAMES.toolType]: "function",
        [NAMES.toolCallId]: callId,
        [NAMES.turn]: turn,
      },
    };
    if (childStart === undefined) return [span];
    const agent: Span = {
      ...common,
      ...this.#ids(turn, "agent", id),
      parentSpanId: own.spanId,
      name: OPERATIONS.agent,
      start: childStart,
      attributes: {
        [NAMES.operation]: OPERATIONS.agent,
        [NAMES.conversation]: this.#about.session,
        [NAMES.agentId]: id,
        [NAMES.turn]: turn,
      },
    };
    return [agent, span];
  }

  #ids(turn: string | undefined, kind: string, id: string): { traceId: string; spanId: string } {
    const { session, createdAt, digest } = this.#about;
    // A request outside of any turn is a trace of its own.
    const root = turn ?? id;
    return {
      traceId: digest("trace", session, createdAt, root).slice(0, 32),
      spanId: digest("span", session, createdAt, root, kind, id).slice(0, 16),
    };
  }

  /** Below the sub-agent that an item belongs to, else below the turn. */
  #parent(turn: string | undefined, item: string | undefined): { parentSpanId?: string } {
    if (turn === undefined) return {};
    const isNested = item !== undefined && this.#tools.get(item)?.childStart !== undefined;
    const { spanId } = isNested ? this.#ids(turn, "agent", item) : this.#ids(turn, "turn", turn);
    return { parentSpanId: spanId };
  }
}
