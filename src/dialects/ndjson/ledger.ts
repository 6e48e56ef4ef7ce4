import { type AssistantSandboxNDJSONLine, type ErrorLine, NdjsonError, type StepLine } from "./line.ts";

/** How many different steps one turn may have: a sender without end would fill the memory. */
const MAX_STEPS = 100_000;

/** A line as it goes on: its text, or a line that has to stand there and was never sent. */
export interface Passed {
  readonly line: AssistantSandboxNDJSONLine;
  readonly text: string;
}

/** Keeps one turn to the envelope's rules: what has started ends, once, and one line is the last. */
export class TurnLedger {
  readonly #open = new Map<string, StepLine>();
  readonly #closed = new Set<string>();
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The lines that go on in the place of this one; fails with what the line breaks. */
  take(line: AssistantSandboxNDJSONLine, text: string): Passed[] {
    if (line.type === "log") return [];
    if (line.type === "step") return this.#step(line, text);
    return [...this.#close(line.ts), { line, text }];
  }

  /** The turn ends here, because its sender broke the rules or went away. */
  fail(error: Pick<ErrorLine, "code" | "message">): Passed[] {
    return [...this.#close(), toPassed({ type: "error", ...error })];
  }

  #step(line: StepLine, text: string): Passed[] {
    const { id, name, args, status, ts } = line;
    if (this.#closed.has(id)) throw new NdjsonError(`the step ${JSON.stringify(id)} had ended`, text);
    if (status === "running") {
      if (this.#open.size + this.#closed.size >= MAX_STEPS && !this.#open.has(id))
        throw new NdjsonError(`the turn has more than ${MAX_STEPS} steps`, text);
      this.#open.set(id, line);
      return [{ line, text }];
    }
    const isKnown = this.#open.delete(id);
    this.#closed.add(id);
    if (isKnown) return [{ line, text }];
    const started: StepLine = {
      type: "step",
      id,
      name,
      status: "running",
      ...(args === undefined ? {} : { args }),
      ...(ts === undefined ? {} : { ts }),
    };
    return [toPassed(started), { line, text }];
  }

  #close(ts?: number): Passed[] {
    this.#isOver = true;
    const left = [...this.#open.values()].map((step) => toInterrupted(step, ts));
    this.#open.clear();
    return left.map(toPassed);
  }
}

function toInterrupted({ type, id, name }: StepLine, ts: number | undefined): StepLine {
  const line: StepLine = { type, id, name, status: "failed", error: "interrupted" };
  return ts === undefined ? line : { ...line, ts };
}

function toPassed(line: AssistantSandboxNDJSONLine): Passed {
  return { line, text: JSON.stringify(line) };
}
