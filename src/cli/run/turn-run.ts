import type { EventOf, SluiceEvent } from "../../contract/index.ts";
import type { EngineOptions } from "../../sessions/index.ts";
import type { Engine } from "../../sessions/port.ts";
import { followLog } from "../source/folder.ts";
import { EXIT } from "../terminal/failure.ts";
import type { Screen } from "../terminal/screen.ts";
import type { Print } from "../transcript/formats.ts";
import { RequestPrompt } from "./request-prompt.ts";

/** One turn of `sluice run`: sends the prompt, prints the events, answers the agent's requests. */
export class TurnRun {
  readonly #engine: Engine;
  readonly #session: string;
  readonly #screen: Screen;
  readonly #print: Print;
  readonly #requests: RequestPrompt;
  readonly #stopped = new AbortController();
  #interrupts = 0;

  constructor(engine: Engine, options: { session: string; screen: Screen; print: Print }) {
    this.#engine = engine;
    this.#session = options.session;
    this.#screen = options.screen;
    this.#print = options.print;
    this.#requests = new RequestPrompt(engine, options.screen, { interrupt: () => this.interrupt() });
  }

  /** The first call ends the turn, the second the session, the third this process. */
  interrupt(): void {
    this.#interrupts += 1;
    if (this.#interrupts > 2) process.exit(EXIT.interrupted);
    const isFirst = this.#interrupts === 1;
    this.#screen.note(
      isFirst ? "\nInterrupting the turn. Ctrl-C again kills the session." : "\nKilling the session.",
    );
    this.#stop();
  }

  #stop(): void {
    const isFirst = this.#interrupts === 1;
    const stop = isFirst
      ? this.#engine.interrupt(this.#session, { by: "cli" })
      : this.#engine.terminate(this.#session);
    stop.catch((error: unknown) => this.#stopped.abort(error));
  }

  async run(prompt: string): Promise<number> {
    const content = [{ type: "text" as const, text: prompt }];
    const { turnId, after } = await this.#engine.send(this.#session, { content, via: "cli" });
    let end: EventOf<"turn.ended"> | undefined;
    try {
      const signal = this.#stopped.signal;
      for await (const stored of followLog(this.#engine.log, this.#session, { after, signal })) {
        // The turn continues when the reader of the output has gone, as with `| head`.
        await this.#screen.write(this.#print(stored));
        const event = JSON.parse(stored.body) as SluiceEvent;
        // An interrupt before the turn's start had nothing to interrupt, so it is repeated.
        if (event.type === "turn.started" && this.#interrupts === 1) this.#stop();
        if (event.type === "turn.ended" && event.data.turn_id === turnId) end = event;
        if (end && !(await this.#isEnding(end))) break;
        this.#requests.observe(event);
      }
      this.#stopped.signal.throwIfAborted();
    } finally {
      await this.#requests.close();
    }
    return this.#exitCode(end);
  }

  /** Whether the session ends too. Its `session.ended`, which has the reason, comes after the agent's exit. */
  async #isEnding({ data }: EventOf<"turn.ended">): Promise<boolean> {
    if (data.stop_reason === "terminated" || this.#interrupts > 1) return true;
    if (data.status === "completed") return false;
    const row = await this.#engine.log.find(this.#session);
    if (data.stop_reason === "model_error") return row?.spec.lasting !== true;
    const info = await this.#engine.info(this.#session);
    return info.ended;
  }

  #exitCode(end: EventOf<"turn.ended"> | undefined): number {
    if (this.#interrupts > 0 || end?.data.status === "interrupted") return EXIT.interrupted;
    return end?.data.status === "completed" ? EXIT.ok : EXIT.failed;
  }
}

/** Prints errors that cannot become events, such as a full disk, each once. */
export function createErrorPrinter(screen: Screen): NonNullable<EngineOptions["logger"]> {
  const printed = new Set<string>();
  return ({ level, message, error }) => {
    // The session's log has everything below an error.
    if (level !== "error") return;
    const text = error === undefined ? message : `${message}: ${String(error)}`;
    if (printed.has(text)) return;
    printed.add(text);
    screen.fail(text);
  };
}
