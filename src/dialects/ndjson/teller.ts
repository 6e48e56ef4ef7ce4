import type { SluiceEvent } from "../../contract/index.ts";
import type { Frame } from "../port.ts";
import type { AssistantSandboxNDJSONLine, LogLine } from "./line.ts";
import type { NdjsonState, OpenStep, OpenTurn } from "./state.ts";

/** Tells one event of a turn: the lines that it becomes, and what is open behind it. */
export class Teller {
  readonly event: SluiceEvent;
  readonly ts: number;
  readonly frames: Frame[] = [];
  readonly #form: "lines" | "sse";
  #turn: OpenTurn;

  constructor({ view }: NdjsonState, turn: OpenTurn, event: SluiceEvent) {
    this.event = event;
    this.ts = Date.parse(event.time);
    this.#form = view.form ?? "lines";
    this.#turn = turn;
  }

  get turn(): OpenTurn {
    return this.#turn;
  }

  get isSse(): boolean {
    return this.#form === "sse";
  }

  say(line: AssistantSandboxNDJSONLine): void {
    if (line.type === "log" && this.isSse) return;
    this.frames.push({ event: line.type, data: JSON.stringify(line) });
  }

  log(level: LogLine["level"], message: string): void {
    if (!this.isSse) this.say({ type: "log", level, message, ts: this.ts });
  }

  setText(text: string | null): void {
    this.#turn = { ...this.#turn, text };
  }

  open(key: string, step: OpenStep): void {
    this.#turn = { ...this.#turn, steps: { ...this.#turn.steps, [key]: step } };
  }

  close(key: string): void {
    const { [key]: _, ...steps } = this.#turn.steps;
    this.#turn = { ...this.#turn, steps };
  }
}
