import type { LineReading } from "../scribe.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";

/** The decoder's state. Plain JSON, never changed in place. */
export interface AmpState {
  readonly transcript: Transcript<AmpAsk>;
  /** Whether the turn of the last prompt has ended. */
  readonly settled: boolean;
  /** Whether Amp has begun the last prompt. */
  readonly heard: boolean;
  /** Whether the model's last message has ended the turn, so that a later `result` ends nothing. */
  readonly owed: boolean;
  /** Messages into the running turn that Amp has not taken up. */
  readonly steering: number;
  /** Whether the turn's usage was reported message by message. */
  readonly counted: boolean;
  /** The model's last message, which may come in several lines. */
  readonly message?: string;
  /** Tool calls without a result, by native id. The gate's requests are matched with them. */
  readonly calls: Readonly<Record<string, PlainCall>>;
  /** Calls that were made from a request of the gate, by the id that Amp gives them later. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Amp asks for a login in plain text. */
  readonly loggingIn: boolean;
  /** The error on stderr in a recording. */
  readonly trouble?: string;
}

/** A request of the gate: its own id, and the tool. */
interface AmpAsk {
  readonly native: string;
  readonly tool: string;
}

interface PlainCall {
  readonly name: string;
  /** The arguments as JSON text. */
  readonly input: string;
  /** Whether the gate has asked for the call's permission. */
  readonly asked?: boolean;
  /** Whether only the gate has reported the call. */
  readonly madeUp?: boolean;
}

export type Reading = LineReading<AmpState, AmpAsk>;

export function initialState(idPrefix: string): AmpState {
  return {
    transcript: emptyTranscript(idPrefix),
    settled: false,
    ...AFTER_TURN,
    loggingIn: false,
  };
}

/** The fields of the state that a turn's end resets. */
export const AFTER_TURN = {
  heard: false,
  owed: false,
  steering: 0,
  counted: false,
  calls: {},
  aliases: {},
} as const;
