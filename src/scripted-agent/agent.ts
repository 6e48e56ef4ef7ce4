import type { ToolSettings } from "../contract/index.ts";
import type { Answers } from "./answers.ts";
import { Halted } from "./halt.ts";
import type { Memory } from "./memory.ts";
import type { Output } from "./output.ts";
import type { AgentLine, AgentUsage, FailureKind } from "./protocol.ts";
import type { McpServers } from "./tools/mcp.ts";

/** The state of the agent's process. */
export interface Agent {
  readonly output: Output;
  readonly memory: Memory;
  readonly answers: Answers;
  readonly mcp: McpServers;
  /** Names of the tools that need no more permission in this session. */
  readonly allowed: Set<string>;
  readonly toolSettings: ToolSettings;
  readonly model?: string;
  readonly ids: Ids;
}

/** Ids that are unique in the session: the kind, the number of the process, an ordinal. */
export class Ids {
  readonly #process: number;
  #last = 0;

  constructor(process: number) {
    this.#process = process;
  }

  next(kind: string): string {
    this.#last += 1;
    return `${kind}_${this.#process}_${this.#last}`;
  }
}

/** One agent in a turn: the main agent, or a sub-agent. It reports its model requests with their usage. */
export class Scope {
  readonly agent: Agent;
  readonly signal: AbortSignal;
  /** The field of a sub-agent's lines with the id of its tool call; empty for the main agent. */
  readonly parent: { parent?: string };
  /** The newest message. The last one of a sub-agent is its result. */
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

  /** Whether the turn is abandoned, so that it prints nothing more. */
  get muted(): boolean {
    const reason: unknown = this.signal.reason;
    return reason instanceof Halted && reason.how === "abandoned";
  }

  /** Adds characters of output to the model request, for the estimate of its usage. */
  produce(chars: number): void {
    this.openRequest();
    if (this.#request !== undefined) this.#request.produced += chars;
    this.agent.memory.addOutput(chars);
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

  /** Sets the usage of the model request in place of the estimate. */
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
