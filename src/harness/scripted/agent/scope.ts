import type { AgentLine, AgentUsage, FailureKind } from "../protocol.ts";
import type { Agent } from "./agent.ts";

/** One line of thought of a turn: the agent's own, or a sub-agent's. Counts its model requests. */
export class Scope {
  readonly agent: Agent;
  readonly signal: AbortSignal;
  /** The sub-agent's tool call, as the lines carry it. */
  readonly parent: { parent?: string };
  /** The newest message: what a sub-agent gives back. */
  lastText = "";
  #request: { id: string; usage?: AgentUsage; produced: number } | undefined;

  constructor(agent: Agent, options: { signal: AbortSignal; parent?: string }) {
    this.agent = agent;
    this.signal = options.signal;
    this.parent = options.parent === undefined ? {} : { parent: options.parent };
  }

  emit(line: AgentLine): void {
    if (!this.muted) this.agent.output.line(line);
  }

  /** An abandoned turn has been ended by others: nothing of it may be said any more. */
  get muted(): boolean {
    return this.signal.aborted && (this.signal.reason as { how?: string }).how === "abandoned";
  }

  /** Whatever a model makes belongs to a request; `chars` is how much it made. */
  produce(chars: number): void {
    this.openRequest();
    if (this.#request !== undefined) this.#request.produced += chars;
    this.agent.memory.say(chars);
  }

  openRequest(): void {
    if (this.#request !== undefined) return;
    this.#request = { id: this.agent.ids.next("req"), produced: 0 };
    const { model } = this.agent;
    this.emit({
      type: "model.started",
      id: this.#request.id,
      ...(model === undefined ? {} : { model }),
      ...this.parent,
    });
  }

  report(usage: AgentUsage): void {
    this.openRequest();
    if (this.#request !== undefined) this.#request.usage = { ...this.#request.usage, ...usage };
  }

  closeRequest(): void {
    const request = this.#request;
    if (request === undefined) return;
    this.#request = undefined;
    const usage = request.usage ?? {
      input_tokens: tokens(this.agent.memory.chars - request.produced),
      output_tokens: tokens(request.produced),
    };
    this.emit({ type: "model.ended", id: request.id, usage, estimated: request.usage === undefined });
  }

  failRequest(kind: FailureKind): void {
    this.openRequest();
    const id = this.#request?.id ?? "";
    this.#request = undefined;
    this.emit({
      type: "model.failed",
      id,
      kind,
      message: FAILURE_TEXT[kind],
      retryable: kind !== "terminal",
    });
  }
}

const FAILURE_TEXT: Record<FailureKind, string> = {
  overloaded: "The model is overloaded.",
  rate_limited: "The model's rate limit was reached.",
  bad_gateway: "The model's gateway answered 502.",
  terminal: "The model cannot go on.",
};

function tokens(chars: number): number {
  return Math.ceil(Math.max(0, chars) / 4);
}
