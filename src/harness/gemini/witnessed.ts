import type { Hand } from "../acp/hand.ts";
import type { Params } from "../rpc.ts";
import { without } from "../transcript.ts";

/** A call that the witness saw in the model's answer, before the CLI makes it. */
interface WitnessedCall {
  readonly key: string;
  readonly name: string;
  readonly id?: string;
  readonly args: unknown;
}

const PREFIX = "call:";

export function noteCall(hand: Hand, { name, id, args }: Params): void {
  const known = { name: String(name), args: args ?? {}, ...(typeof id === "string" ? { id } : {}) };
  const key = `${PREFIX}${calls(hand).length}:${hand.scribe.transcript.count}`;
  hand.note({ aside: { ...hand.state.aside, [key]: JSON.stringify(known) } });
}

/** By its id; where the model gives none, the oldest of that name. */
export function findCall(hand: Hand, { name, id }: { name: string; id: string }): WitnessedCall | undefined {
  const named = calls(hand).filter((call) => call.name === name);
  return named.find((call) => call.id === id) ?? named.find((call) => call.id === undefined);
}

/** The CLI has told of the call itself. */
export function forgetCall(hand: Hand, native: string): void {
  const end = native.lastIndexOf("__");
  const call = findCall(hand, { name: native.slice(0, end), id: native.slice(end + 2) });
  if (call) hand.note({ aside: without(hand.state.aside, call.key) });
}

function calls({ state }: Hand): WitnessedCall[] {
  return Object.entries(state.aside).flatMap(([key, value]) => {
    if (!key.startsWith(PREFIX)) return [];
    return [{ key, ...(JSON.parse(value) as Omit<WitnessedCall, "key">) }];
  });
}
