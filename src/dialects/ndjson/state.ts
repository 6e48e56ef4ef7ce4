export interface NdjsonView {
  /** Only this turn; the stream ends behind its last line. */
  readonly turn?: string;
  /** `sse` is the form for browsers: no logs, and a `done` at the end. */
  readonly form?: "lines" | "sse";
  /** How many frames of one event a reader has seen that comes back between two of them. */
  readonly seen?: { readonly sequence: number; readonly frames: number };
}

export interface NdjsonState {
  readonly view: NdjsonView;
  /** What happened since the last turn ended: it is told with the next one, which it was done for. */
  readonly held: readonly string[];
  readonly turn: OpenTurn | null;
}

export interface OpenTurn {
  readonly id: string;
  /** Running steps by the id of their call's item, or of the request for a tool that has no item. */
  readonly steps: Readonly<Record<string, OpenStep>>;
  /** What the agent said last, which is its final message if nothing follows. */
  readonly text: string | null;
}

export interface OpenStep {
  readonly id: string;
  readonly name: string;
  readonly callId: string | undefined;
  readonly since: number;
}

export const NO_TURN: Pick<NdjsonState, "held" | "turn"> = { held: [], turn: null };
