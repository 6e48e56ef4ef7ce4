import type { Place } from "../pen.ts";
import type { Scribe } from "../scribe.ts";
import { own } from "../transcript.ts";
import type { Ask, CodexState, SubAgent } from "./state.ts";

/** One line while it is being read: what is known so far, the hand that writes facts, and what Codex is told at once. */
export interface Reading {
  state: CodexState;
  readonly scribe: Scribe<Ask>;
  readonly replies: string[];
}

export function change(reading: Reading, part: Partial<CodexState>): void {
  reading.state = { ...reading.state, ...part };
}

/** The conversation itself; until its id is known, whatever speaks is it. */
export function isMain({ state }: Reading, thread: string | undefined): boolean {
  return thread === undefined || state.thread === undefined || thread === state.thread;
}

/** Where a thread's words belong: a sub-agent's stand under the call that made it. */
export function placeOf(reading: Reading, thread: string | undefined): Place {
  if (isMain(reading, thread)) return {};
  return { parentItem: own(reading.state.agents, thread ?? "")?.item ?? reading.state.spawning };
}

export function changeAgent(reading: Reading, thread: string, part: Partial<SubAgent>): void {
  const { agents } = reading.state;
  change(reading, { agents: { ...agents, [thread]: { ...own(agents, thread), ...part } } });
}

/** A model request begins with the first that is heard of it: Codex tells of its end alone. */
export function ensureModel(reading: Reading, thread: string | undefined): void {
  const { scribe, state } = reading;
  scribe.startModel(modelKey(reading, thread), { model: state.model, ...placeOf(reading, thread) });
}

/** One request at a time runs for each thread. */
export function modelKey(reading: Reading, thread: string | undefined): string {
  return isMain(reading, thread) ? "main" : (thread ?? "main");
}

export function say(message: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(message);
}
