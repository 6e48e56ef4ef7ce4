import type { EventOf, SluiceEvent } from "../contract/index.ts";
import type { Emitted } from "../dialects/sdk/index.ts";

/** An active run or command. */
export interface Activity {
  readonly kind: "run" | "command";
  readonly id: string;
  readonly background: boolean;
}

export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly checkpointId?: string;
}

/**
 * `requested`: the id is not known yet. `accepted`: the id is known. `exiting`: the turn has ended, and the exit code of
 * its process is still missing. `over`: `ended` is settled.
 */
type Phase = "requested" | "accepted" | "started" | "exiting" | "over";

/**
 * One run or command, from the call to its end. It takes every event of its session, also events before its id is
 * known: the stream may be faster than the answer to the request.
 */
export class Job {
  readonly kind: "run" | "command";
  readonly background: boolean;
  /** Resolves when the job starts, or when it is abandoned before its start. */
  readonly started: Promise<void>;
  /** The outcome of the job; rejects if the job is abandoned. */
  readonly ended: Promise<Outcome>;
  #phase: Phase = "requested";
  #id: string | undefined;
  #resolveStarted: () => void = () => {};
  #resolveEnded: (outcome: Outcome) => void = () => {};
  #rejectEnded: (error: unknown) => void = () => {};
  /** The events before the id was known. */
  #earlyEvents: SluiceEvent[] = [];
  #output: { sequence: number; stream: "stdout" | "stderr"; chunk: string }[] = [];
  /** Output up to this sequence is not the job's. */
  #outputAfter = 0;
  #checkpoint: string | undefined;

  constructor(kind: "run" | "command", options: { background: boolean }) {
    this.kind = kind;
    this.background = options.background;
    this.started = new Promise((resolve) => (this.#resolveStarted = resolve));
    this.ended = new Promise((resolve, reject) => {
      this.#resolveEnded = resolve;
      this.#rejectEnded = reject;
    });
    this.ended.catch(() => {});
  }

  get id(): string | undefined {
    return this.#id;
  }

  /** Whether the run or command has ended, or was abandoned. Its exit code may still be missing. */
  get isOver(): boolean {
    return this.#phase === "exiting" || this.#phase === "over";
  }

  /** Sets the id, then handles the events that came before it. */
  accept(id: string): void {
    this.#id = id;
    if (this.#phase === "requested") this.#phase = "accepted";
    for (const event of this.#earlyEvents.splice(0)) this.#follow(event);
  }

  /** Sets the id of a run or command that is active already. */
  join(id: string): void {
    this.accept(id);
    this.#enter("started");
  }

  see(event: SluiceEvent, emitted: readonly Emitted[]): void {
    if (this.#phase === "over") return;
    for (const part of emitted) {
      if (part.type === "stdout" || part.type === "stderr")
        this.#output.push({ sequence: event.sequence, stream: part.type, chunk: part.chunk });
    }
    if (this.#phase === "requested") this.#earlyEvents.push(event);
    else this.#follow(event);
  }

  /** Gives the job up. Its run or command may continue in the session. */
  abandon(error: unknown): void {
    this.#enter("over");
    this.#rejectEnded(error);
  }

  #enter(phase: "started" | "exiting" | "over"): void {
    this.#phase = phase;
    this.#resolveStarted();
  }

  #follow(event: SluiceEvent): void {
    if (this.#phase === "over") return;
    switch (event.type) {
      case "input.accepted":
        if (event.data.turn_id === this.#id) this.#outputAfter = event.sequence;
        return;
      case "input.withdrawn":
        if (event.data.turn_id === this.#id) this.#conclude(INTERRUPTED);
        return;
      case "turn.started":
        if (event.data.turn_id === this.#id) this.#enter("started");
        return;
      case "checkpoint.created":
        if (event.turn_id === this.#id) this.#checkpoint = event.data.checkpoint_id;
        return;
      case "turn.ended":
        if (event.data.turn_id !== this.#id) return;
        if (event.data.stop_reason === "agent_exited") this.#enter("exiting");
        else this.#conclude(toExitCode(event));
        return;
      case "process.ended":
        // The engine writes the end of a broken-off turn and then, directly after it, the end of the process.
        if (this.#phase === "exiting") this.#conclude(event.data.exit_code || 1);
        return;
      case "command.started":
        if (event.data.command_id !== this.#id) return;
        this.#outputAfter = event.sequence;
        this.#enter("started");
        return;
      case "command.ended":
        if (event.data.command_id !== this.#id) return;
        this.#conclude(toCommandCode(event));
        return;
      default:
    }
  }

  #conclude(exitCode: number): void {
    const text = (stream: "stdout" | "stderr"): string =>
      this.#output
        .filter((part) => part.stream === stream && part.sequence > this.#outputAfter)
        .map((part) => part.chunk)
        .join("");
    this.#enter("over");
    this.#resolveEnded({
      exitCode,
      stdout: text("stdout"),
      stderr: text("stderr"),
      ...(this.#checkpoint === undefined ? {} : { checkpointId: this.#checkpoint }),
    });
    this.#output = [];
  }
}

const INTERRUPTED = 130;
const TOO_LONG = -1;

function toExitCode({ data }: EventOf<"turn.ended">): number {
  if (data.status === "completed") return 0;
  if (data.status === "interrupted") return INTERRUPTED;
  return data.stop_reason === "timeout" ? TOO_LONG : 1;
}

function toCommandCode({ data }: EventOf<"command.ended">): number {
  if (data.reason === "timeout") return TOO_LONG;
  if (data.status === "interrupted") return INTERRUPTED;
  return data.exit_code ?? 1;
}
