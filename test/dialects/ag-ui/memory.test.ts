import * as fc from "fast-check";
import { expect, it } from "vitest";
import { agUi } from "../../../src/dialects/ag-ui/index.ts";
import { growBy, NO_TEXT, restBehind } from "../../../src/dialects/shared/grown-text.ts";

type State = ReturnType<typeof agUi.initial>;

let sequence = 0;
function project(state: State, type: string, data: object): { state: State; frames: string[] } {
  sequence += 1;
  const body = { sequence, type, data, session_id: "s", source: "agent", time: "2026-01-01T00:00:00.000Z" };
  const stored = { sequence, type, body: JSON.stringify(body) } as Parameters<typeof agUi.project>[1];
  const projected = agUi.project(state, stored);
  return { state: projected.state, frames: projected.frames.map(({ data: frame }) => frame) };
}

const item = (kind: string, content: object[], status: string) => ({
  item: { item_id: `itm_${kind}`, kind, role: "assistant", status, content },
});
const KINDS = {
  message: (text: string) => [{ type: "text", text }],
  tool_call: (text: string) => [{ type: "tool_call", call_id: "c", name: "write", arguments: text }],
};

it.each(Object.entries(KINDS))("a reader's state does not keep a long %s", (kind, contentOf) => {
  const delta = "0123456789".repeat(100);
  let { state } = project(agUi.initial({}), "turn.started", { turn_id: "t" });
  state = project(state, "item.started", item(kind, contentOf(""), "in_progress")).state;
  for (let count = 0; count < 1_000; count += 1)
    state = project(state, "item.delta", { item_id: `itm_${kind}`, delta }).state;
  expect(JSON.stringify(state).length).toBeLessThan(10_000);
  const whole = delta.repeat(1_000);
  const completed = project(state, "item.completed", item(kind, contentOf(`${whole} end`), "completed"));
  const rest = completed.frames.map((frame) => (JSON.parse(frame) as { delta?: string }).delta);
  expect(rest.filter((text) => text !== undefined)).toEqual([" end"]);
  expect(JSON.stringify(completed.state).length).toBeLessThan(10_000);
});

it("the rest behind emitted deltas is that of the joined text", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "é", "\0", "😀"), maxLength: 12 });
  fc.assert(
    fc.property(fc.array(text, { maxLength: 5 }), text, text, (deltas, behind, other) => {
      const joined = deltas.join("");
      const grown = deltas.reduce(growBy, NO_TEXT);
      expect(restBehind(grown, joined + behind)).toBe(behind);
      expect(restBehind(grown, other)).toBe(
        other.startsWith(joined) ? other.slice(joined.length) : undefined,
      );
    }),
  );
});
