import { type SluiceEvent, without } from "../../contract/index.ts";
import type { Frame } from "../port.ts";
import { Projection } from "../shared/projection.ts";
import type { AssistantSandboxNDJSONLine, LogLine } from "./line.ts";

/** One event of a turn as lines, and the turn's state after it. */
export class NdjsonProjection extends Projection<OpenTurn> {
  readonly ts: number;
  readonly frames: Frame[] = [];
  readonly isSse: boolean;

  constructor({ view }: NdjsonState, turn: OpenTurn, event: SluiceEvent) {
    super(turn, event);
    this.ts = Date.parse(event.time);
    this.isSse = view.form === "sse";
  }

  get turn(): OpenTurn {
    return this.state;
  }

  emit(line: AssistantSandboxNDJSONLine): void {
    if (line.type === "log" && this.isSse) return;
    this.frames.push({ event: line.type, data: JSON.stringify(line) });
  }

  log(level: LogLine["level"], message: string): void {
    if (!this.isSse) this.emit({ type: "log", level, message, ts: this.ts });
  }

  open(key: string, step: OpenStep): void {
    this.change({ steps: { ...this.turn.steps, [key]: step } });
  }

  close(key: string): void {
    this.change({ steps: without(this.turn.steps, key) });
  }
}

export interface NdjsonView {
  /** Only this turn; the stream ends with its last line. */
  readonly turn?: string;
  /** `sse`, for browsers, has no logs and ends with `done`. */
  readonly form?: "lines" | "sse";
  /** The frames of one event that a returning reader saw. */
  readonly seen?: { readonly sequence: number; readonly frames: number };
}

export interface NdjsonState {
  readonly view: NdjsonView;
  /** Log lines since the last turn's end; the next turn shows them. */
  readonly held: readonly string[];
  readonly turn: OpenTurn | null;
}

export interface OpenTurn {
  readonly id: string;
  /** Running steps by the id of the call's item, or of the tool request without an item. */
  readonly steps: Readonly<Record<string, OpenStep>>;
  /** The agent's newest message. The last one of the turn is its result. */
  readonly text: string | null;
}

export interface OpenStep {
  readonly id: string;
  readonly name: string;
  readonly callId: string | undefined;
  readonly since: number;
}

export const NO_TURN: Pick<NdjsonState, "held" | "turn"> = { held: [], turn: null };
