import type { Scribe } from "../scribe.ts";
import type { Fields } from "./fields.ts";
import type { Ask, ClaudeState } from "./state.ts";

/** What one line is read with: the hand that writes facts, and what the CLI awaits in answer. */
export interface Reading {
  readonly scribe: Scribe<Ask>;
  readonly replies: string[];
}

/** Takes one line's meaning; answers the next state, or why the line makes no sense. */
export type Reader = (state: ClaudeState, line: Fields, reading: Reading) => ClaudeState | string;
