import { type Agent, Scope } from "./agent.ts";
import { BadScript } from "./fields.ts";
import { Halted, Refused } from "./halt.ts";
import { performSteps } from "./perform.ts";
import type { AgentCommand, AgentPlanEntry } from "./protocol.ts";
import { parseScript } from "./script.ts";
import type { Step } from "./step.ts";

type Prompt = Extract<AgentCommand, { type: "prompt" }>;

/** Runs one turn at a time. Prompts that arrive meanwhile wait in order. */
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

  /** Ends the running turn, if there is one. */
  interrupt(): void {
    this.#halt?.abort(new Halted("interrupted"));
  }

  /** Ends a turn that waits for a command, after the end of stdin. */
  giveUpWaiting(): void {
    this.#abandon();
    if (this.#agent.answers.waits) this.interrupt();
  }

  /** Ends a turn that waits for a retry. It prints nothing more: the engine has ended it already. */
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

  /** Starts the next turn synchronously, so that an interrupt right after a prompt finds its turn. */
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
    memory.addPrompt(text);
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

const LONGEST_QUOTE = 10_000;
const FILE = "hello-from-sluice.md";

/** The steps for a prompt without a script. They show each usual action of an agent once. */
function toPerformance(prompt: string): Step[] {
  const quote = prompt.length > LONGEST_QUOTE ? `${prompt.slice(0, LONGEST_QUOTE)}…` : prompt;
  const quoted = quote
    .split("\n")
    .map((line) => `> ${line}`)
    .join("\n");
  return [
    plan("in_progress", "pending", "pending"),
    { do: "think", text: "There is no model behind me, so I will look around, leave a file, and answer." },
    { do: "shell", command: "uname -s && date +%Y" },
    plan("completed", "in_progress", "pending"),
    { do: "write", path: FILE, content: `# Hello from sluice\n\nYou wrote:\n\n${quoted}\n` },
    plan("completed", "completed", "in_progress"),
    {
      do: "say",
      text: `You said: “${quote}” I ran a shell command and wrote ${FILE}. Start a prompt with #script to choose what I do.`,
    },
    plan("completed", "completed", "completed"),
  ];
}

type Status = AgentPlanEntry["status"];

function plan(look: Status, write: Status, answer: Status): Step {
  return {
    do: "plan",
    entries: [
      { content: "Look around", status: look, priority: "medium" },
      { content: `Write ${FILE}`, status: write, priority: "medium" },
      { content: "Answer", status: answer, priority: "high" },
    ],
  };
}
