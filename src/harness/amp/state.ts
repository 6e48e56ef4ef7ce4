import { emptyTranscript, type Transcript } from "../transcript.ts";

/** What the decoder must remember from line to line. Plain JSON, never changed in place. */
export interface AmpState {
  readonly transcript: Transcript<AmpAsk>;
  /** The prompt that was given last has had its end. */
  readonly settled: boolean;
  /** Amp has begun to work on that prompt. */
  readonly heard: boolean;
  /** The turn ended with the model's last words; the `result` that may follow ends nothing. */
  readonly owed: boolean;
  /** Messages that were sent into the running turn and that Amp has not taken up yet. */
  readonly steering: number;
  /** Whether the turn's usage was told message by message. */
  readonly counted: boolean;
  /** The model's last message, which may come in several lines. */
  readonly message?: string;
  /** Tool calls without a result, by native id: what the gate asks about is found among them. */
  readonly calls: Readonly<Record<string, PlainCall>>;
  /** Calls that were made up from an ask, by the id that Amp gave them later. */
  readonly aliases: Readonly<Record<string, string>>;
  /** It wants somebody to log in, and says so in plain text. */
  readonly loggingIn: boolean;
  /** What stderr said, where a recording has it. */
  readonly trouble?: string;
}

/** What the gate asks about, and the gate's own id of it. */
export interface AmpAsk {
  readonly native: string;
  readonly tool: string;
}

export interface PlainCall {
  readonly name: string;
  /** The arguments as JSON text. */
  readonly input: string;
  /** The gate has asked about it. */
  readonly asked?: boolean;
  /** It is known from the gate alone. */
  readonly madeUp?: boolean;
}

export function initialState(idPrefix: string): AmpState {
  return {
    transcript: emptyTranscript(idPrefix),
    settled: false,
    ...atTurnsEdge,
    loggingIn: false,
  };
}

/** A turn's end is a clean cut. */
export const atTurnsEdge = {
  heard: false,
  owed: false,
  steering: 0,
  counted: false,
  calls: {},
  aliases: {},
} as const;
