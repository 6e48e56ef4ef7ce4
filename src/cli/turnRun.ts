import type { EventOf, SluiceEvent } from "../contract/index.ts";
import type { Engine } from "../sessions/port.ts";
import { Asker } from "./asker.ts";
import { EXIT } from "./failure.ts";
import { followLog } from "./folderSource.ts";
import type { Print } from "./formats.ts";
import type { Screen } from "./screen.ts";

/** One turn of `sluice run`: sends the prompt, shows what comes of it, answers what is asked. */
export class TurnRun {
  readonly #engine: Engine;
  readonly #session: string;
  readonly #screen: Screen;
  readonly #print: Print;
  readonly #asker: Asker;
  readonly #stopped = new AbortController();
  #interrupts = 0;

  constructor(engine: Engine, options: { session: string; screen: Screen; print: Print }) {
    this.#engine = engine;
    this.#session = options.session;
    this.#screen = options.screen;
    this.#print = options.print;
    this.#asker = new Asker(engine, options.screen, { interrupt: () => this.interrupt() });
  }

  /** Once ends the turn, twice the session, three times this process. */
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
        // A reader that left (`| head`) does not stop the work.
        await this.#screen.write(this.#print(stored));
        const event = JSON.parse(stored.body) as SluiceEvent;
        // Asked to stop before there was a turn to stop.
        if (event.type === "turn.started" && this.#interrupts === 1) this.#stop();
        if (event.type === "turn.ended" && event.data.turn_id === turnId) end = event;
        if (end && !(await this.#isEnding(end))) break;
        this.#asker.see(event);
      }
      this.#stopped.signal.throwIfAborted();
    } finally {
      await this.#asker.close();
    }
    return this.#exitCode(end);
  }

  /** Some turns take their session with them; the second half says why, and comes once the agent is dead. */
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
