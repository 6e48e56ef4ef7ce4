import type { EventOf, SluiceEvent } from "../contract/index.ts";
import type { Told } from "../dialects/content/index.ts";

export interface Outcome {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly checkpointId?: string;
}

/**
 * One run or command, from the call to its end. It is fed every event of its session, also those that come before
 * its own id is known: a stream may be faster than the answer to a request.
 */
export class Operation {
  readonly kind: "run" | "command";
  readonly background: boolean;
  /** Settles when it runs, or when it will never. */
  readonly started: Promise<void>;
  /** Its outcome; fails when the session ended first. */
  readonly ended: Promise<Outcome>;
  #id: string | undefined;
  #begin: () => void = () => {};
  #finish: (outcome: Outcome) => void = () => {};
  #fail: (error: unknown) => void = () => {};
  #events: SluiceEvent[] = [];
  #output: { sequence: number; stream: "stdout" | "stderr"; chunk: string }[] = [];
  #from: number | undefined;
  #end: EventOf<"turn.ended"> | undefined;
  #checkpoint: string | undefined;
  #isOver = false;

  constructor(kind: "run" | "command", options: { background: boolean }) {
    this.kind = kind;
    this.background = options.background;
    this.started = new Promise((resolve) => (this.#begin = resolve));
    this.ended = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    this.ended.catch(() => {});
  }

  get id(): string | undefined {
    return this.#id;
  }

  /** Whether its terminal event has come. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** It was accepted under this id; what came before is looked at again. */
  accept(id: string): void {
    this.#id = id;
    const events = this.#events;
    this.#events = [];
    for (const event of events) this.#follow(event);
  }

  /** It runs already, under this id. */
  join(id: string): void {
    this.accept(id);
    this.#begin();
  }

  see(event: SluiceEvent, told: readonly Told[]): void {
    for (const part of told) {
      if (part.type === "stdout" || part.type === "stderr")
        this.#output.push({ sequence: event.sequence, stream: part.type, chunk: part.chunk });
    }
    if (this.#id === undefined) this.#events.push(event);
    else this.#follow(event);
  }

  abandon(error: unknown): void {
    this.#isOver = true;
    this.#begin();
    this.#fail(error);
  }

  #follow(event: SluiceEvent): void {
    switch (event.type) {
      case "input.accepted":
        if (event.data.turn_id === this.#id) this.#from = event.sequence;
        return;
      case "turn.started":
        if (event.data.turn_id === this.#id) this.#begin();
        return;
      case "checkpoint.created":
        if (event.turn_id === this.#id) this.#checkpoint = event.data.checkpoint_id;
        return;
      case "turn.ended":
        if (event.data.turn_id !== this.#id) return;
        this.#isOver = true;
        this.#begin();
        // How its process ended is said right behind it.
        if (event.data.stop_reason === "agent_exited") this.#end = event;
        else this.#conclude(toExitCode(event));
        return;
      case "process.ended":
        if (this.#end) this.#conclude(event.data.exit_code || 1);
        return;
      case "command.started":
        if (event.data.command_id !== this.#id) return;
        this.#from = event.sequence;
        this.#begin();
        return;
      case "command.ended":
        if (event.data.command_id !== this.#id) return;
        this.#isOver = true;
        this.#begin();
        this.#conclude(toCommandCode(event));
        return;
      default:
    }
  }

  #conclude(exitCode: number): void {
    const text = (stream: "stdout" | "stderr"): string =>
      this.#output
        .filter((part) => part.stream === stream && part.sequence > (this.#from ?? 0))
        .map((part) => part.chunk)
        .join("");
    this.#finish({
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
