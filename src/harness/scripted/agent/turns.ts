import type { AgentCommand } from "../protocol.ts";
import type { Agent } from "./agent.ts";
import { BadScript } from "./bad-script.ts";
import { Halted, Refused } from "./halted.ts";
import { performSteps } from "./perform.ts";
import { toPerformance } from "./performance.ts";
import { Scope } from "./scope.ts";
import { parseScript } from "./script.ts";

type Prompt = Extract<AgentCommand, { type: "prompt" }>;

/** One turn at a time; prompts that come meanwhile wait in order. */
export class Turns {
  readonly #agent: Agent;
  readonly #queue: Prompt[] = [];
  #halt: AbortController | undefined;
  #onIdle: (() => void) | undefined;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  prompt(prompt: Prompt): void {
    this.#queue.push(prompt);
    this.#abandon();
    this.#next();
  }

  /** Ends the running turn; nothing where none runs. */
  interrupt(): void {
    this.#halt?.abort(new Halted("interrupted"));
  }

  /** No command will come any more: what waits for one ends, as far as anybody still expects an end. */
  giveUpWaiting(): void {
    this.#abandon();
    if (this.#agent.answers.waits) this.interrupt();
  }

  /** A turn that stands at a failure has been ended by whoever does not retry it. */
  #abandon(): void {
    if (this.#agent.answers.waitsForRetry) this.#halt?.abort(new Halted("abandoned"));
  }

  /** Resolves when no turn runs and none waits. */
  async idle(): Promise<void> {
    if (this.#halt === undefined) return;
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
  }

  // Starts within the call, so that an interrupt right behind a prompt finds its turn.
  #next(): void {
    if (this.#halt !== undefined) return;
    const prompt = this.#queue.shift();
    if (prompt === undefined) {
      this.#onIdle?.();
      return;
    }
    this.#halt = new AbortController();
    void this.#perform(prompt, this.#halt.signal).finally(() => {
      this.#halt = undefined;
      this.#next();
    });
  }

  async #perform(prompt: Prompt, signal: AbortSignal): Promise<void> {
    const { memory } = this.#agent;
    const scope = new Scope(this.#agent, { signal });
    const text = [prompt.text, ...(prompt.attachments ?? [])].join("\n");
    if (prompt.replay) memory.recall(prompt.replay.earlier_conversation);
    const turn = memory.turns + 1;
    scope.emit({ type: "turn.started", turn });
    memory.hear(text);
    this.#remember();
    scope.openRequest();
    const end = await performPrompt(scope, prompt.text, text);
    scope.closeRequest();
    this.#remember();
    scope.emit({ type: "turn.ended", turn, ...end });
  }

  #remember(): void {
    try {
      this.#agent.memory.save();
    } catch (error) {
      process.stderr.write(`scripted: cannot keep the session: ${String(error)}\n`);
    }
  }
}

type End = Pick<
  Extract<Parameters<Scope["emit"]>[0], { type: "turn.ended" }>,
  "stop_reason" | "reason" | "error"
>;

async function performPrompt(scope: Scope, script: string, text: string): Promise<End> {
  try {
    await performSteps(scope, parseScript(script) ?? toPerformance(text));
    return { stop_reason: "end_turn" };
  } catch (error) {
    if (scope.signal.aborted) return { stop_reason: "interrupted" };
    if (error instanceof Refused) return { stop_reason: "refusal", reason: error.message };
    const code = error instanceof BadScript ? "bad_script" : "agent_failed";
    const message = error instanceof Error ? error.message : String(error);
    scope.emit({ type: "error", code, message });
    return { stop_reason: "failed", error: { code, message } };
  }
}
