import type { SluiceEvent } from "../../src/contract/index.ts";

export interface History {
  /** The inputs that were acknowledged, by words that only they contain. */
  readonly keys: readonly string[];
  readonly stored: readonly SluiceEvent[];
  /** The events as a live reader got them. */
  readonly seen: readonly SluiceEvent[];
}

/** The ways in which a history is not one that a single, immortal server would have made. */
export function violations({ keys, stored, seen }: History): string[] {
  const found: string[] = [];
  for (const [index, { sequence }] of stored.entries())
    if (sequence !== index + 1) found.push(`the event ${index + 1} of the log has the sequence ${sequence}`);
  const inputs = stored.filter(({ type }) => type === "input.accepted");
  for (const key of keys) {
    const ofKey = inputs.filter((event) => JSON.stringify(event.data).includes(key));
    if (ofKey.length !== 1) found.push(`the input ${key} is in the log ${ofKey.length} times`);
    const turn = ofKey[0]?.turn_id;
    const ends = stored.filter(({ type, turn_id: id }) => type === "turn.ended" && id === turn);
    if (ofKey.length > 0 && ends.length !== 1) found.push(`the turn of ${key} ended ${ends.length} times`);
  }
  for (const [index, event] of seen.entries())
    if (JSON.stringify(event) !== JSON.stringify(stored[index]))
      found.push(`the reader's event ${index + 1} is not that of the log`);
  return found;
}
