import { describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../src/contract/index.ts";
import { violations } from "./history.ts";

/** The proof that the check can fail: histories as broken nodes would leave them. */
describe("the history check", () => {
  const whole = [accepted(1, "k1"), ended(2, "k1")];
  it("accepts a whole history", () => {
    expect(violations({ keys: ["k1"], stored: whole, seen: whole })).toEqual([]);
  });
  it.each([
    ["an acknowledged input that is lost", { keys: ["k1", "k2"], stored: whole, seen: whole }],
    ["an input that was taken twice", { keys: ["k1"], stored: [...whole, accepted(3, "k1")], seen: whole }],
    ["a turn that never ends", { keys: ["k1"], stored: whole.slice(0, 1), seen: whole.slice(0, 1) }],
    ["a gap", { keys: ["k1"], stored: [accepted(1, "k1"), ended(3, "k1")], seen: [] }],
    [
      "a reader with a repeat",
      { keys: ["k1"], stored: whole, seen: [whole[0], whole[0], whole[1]] as never },
    ],
    [
      "a reader with another event",
      { keys: ["k1"], stored: whole, seen: [whole[0], ended(2, "k9")] as never },
    ],
  ])("finds %s", (_what, history) => {
    expect(violations(history)).not.toEqual([]);
  });
});

function accepted(sequence: number, words: string): SluiceEvent {
  return { type: "input.accepted", sequence, turn_id: `t${words}`, data: { content: words } } as never;
}

function ended(sequence: number, words: string): SluiceEvent {
  return { type: "turn.ended", sequence, turn_id: `t${words}`, data: {} } as never;
}
