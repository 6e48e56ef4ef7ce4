import type { EventOf, SluiceEvent } from "../../contract/index.ts";
import type { EngineOptions } from "../../sessions/index.ts";
import type { Controls } from "../source/port.ts";
import { BusyLine } from "../terminal/busy-line.ts";
import { EXIT } from "../terminal/failure.ts";
import type { Screen } from "../terminal/screen.ts";
import type { EventPrinter } from "../transcript/formats.ts";
import { RequestPrompt } from "./request-prompt.ts";

export interface TurnRunOptions {
  readonly session: string;
  readonly screen: Screen;
  readonly print: EventPrinter;
  /** The agent's requests without a person: refused (default), or left to other clients of the server. */
  readonly unattended?: "refuse" | "wait";
  /** The second Ctrl-C: ends the session (default), or leaves the turn to the server. */
  readonly second?: "terminate" | "leave";
}

/** One turn: sends the prompt, prints its events, answers the agent's requests. */
export class TurnRun {
  readonly #controls: Controls;
  readonly #session: string;
  readonly #screen: Screen;
  readonly #print: EventPrinter;
  readonly #second: "terminate" | "leave";
  readonly #requests: RequestPrompt;
  readonly #busy: BusyLine;
  readonly #stopped = new AbortController();
  #interrupts = 0;
  #isStarted = false;

  constructor(controls: Controls, options: TurnRunOptions) {
    this.#controls = controls;
    this.#session = options.session;
    this.#screen = options.screen;
    this.#print = options.print;
    this.#second = options.second ?? "terminate";
    const { unattended = "refuse" } = options;
    this.#requests = new RequestPrompt(controls, options.screen, {
      interrupt: () => this.interrupt(),
      unattended,
    });
    this.#busy = new BusyLine(options.screen, { isTaken: () => this.#requests.isAsking });
  }

  /** The first call ends the turn, the second the session or this process, the third this process. */
  interrupt(): void {
    this.#interrupts += 1;
    if (this.#interrupts > 2) process.exit(EXIT.interrupted);
    const isFirst = this.#interrupts === 1;
    if (this.#second === "leave") {
      if (!isFirst) return this.#stopped.abort();
      this.#screen.note("\nInterrupting the turn. Ctrl-C again leaves it to the server.");
      // Another client's turn may run before this one.
      if (!this.#isStarted) return;
    } else {
      const first = "\nInterrupting the turn. Ctrl-C again kills the session.";
      this.#screen.note(isFirst ? first : "\nKilling the session.");
    }
    this.#stop();
  }

  #stop(): void {
    const isFirst = this.#interrupts === 1;
    const stop = isFirst ? this.#controls.interrupt(this.#session) : this.#controls.terminate(this.#session);
    stop.catch((error: unknown) => this.#stopped.abort(error));
  }

  async run(prompt: string): Promise<number> {
    const { turnId, after } = await this.#controls.send(this.#session, prompt);
    let end: EventOf<"turn.ended"> | undefined;
    this.#busy.start();
    try {
      const signal = this.#stopped.signal;
      for await (const stored of this.#controls.follow(this.#session, { after, signal })) {
        const event = JSON.parse(stored.body) as SluiceEvent;
        // Turns of other clients may come first.
        if (event.turn_id !== undefined && event.turn_id !== turnId) continue;
        this.#busy.touch();
        this.#requests.settle(event);
        // The turn continues when the reader of the output has gone, as with `| head`.
        await this.#screen.write(this.#print(stored));
        // An interrupt before the turn's start had nothing to interrupt, so it is repeated.
        if (event.type === "turn.started") {
          this.#isStarted = true;
          if (this.#interrupts === 1) this.#stop();
        }
        if (event.type === "turn.ended" && event.data.turn_id === turnId) end = event;
        if (end && !(await this.#isEnding(end))) break;
        this.#requests.observe(event);
      }
      if (signal.aborted && signal.reason instanceof Error && !isAbort(signal.reason)) throw signal.reason;
    } finally {
      this.#busy.stop();
      await this.#requests.close();
    }
    return this.#exitCode(end);
  }

  /** Whether the session ends too. Its `session.ended`, which has the reason, comes after the agent's exit. */
  async #isEnding({ data }: EventOf<"turn.ended">): Promise<boolean> {
    const isKilled = this.#interrupts > 1 && this.#second === "terminate";
    return isKilled || this.#controls.isEnding(this.#session, data);
  }

  #exitCode(end: EventOf<"turn.ended"> | undefined): number {
    if (this.#interrupts > 0 || end?.data.status === "interrupted") return EXIT.interrupted;
    return end?.data.status === "completed" ? EXIT.ok : EXIT.failed;
  }
}

/** Whether the abort was requested and is not a failure. */
function isAbort(reason: Error): boolean {
  return reason.name === "AbortError";
}

/** Prints errors that cannot become events, such as a full disk, each once. */
export function createErrorPrinter(screen: Screen): NonNullable<EngineOptions["logger"]> {
  const printed = new Set<string>();
  return ({ level, message, error }) => {
    // Lower levels are in the session's log already.
    if (level !== "error") return;
    const text = error === undefined ? message : `${message}: ${String(error)}`;
    if (printed.has(text)) return;
    printed.add(text);
    screen.fail(text);
  };
}
