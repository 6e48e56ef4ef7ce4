import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ContentPart, SpoolLine } from "../../../src/contract/index.ts";
import { amp } from "../../../src/harness/amp/harness.ts";
import type { HarnessCommand, HarnessFact } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { sample } from "./sample.ts";

type State = ReturnType<typeof amp.initial>;

describe("Amp's input", () => {
  const asking = [...states()].find(({ state }) => Object.keys(state.transcript.asks).length > 0)?.state;
  const ask = Object.keys(asking?.transcript.asks ?? {})[0] ?? "";
  const text = fc.string({ minLength: 1 }).map((words): ContentPart => ({ type: "text", text: `:${words}` }));
  const parts = fc.oneof(
    text,
    fc.constant<ContentPart>({ type: "image", path: "data:image/png;base64,AA==", mime: "image/png" }),
    fc.constant<ContentPart>({ type: "file_ref", path: "/tmp/a b", action: "read" }),
  );
  const commands = fc.oneof<fc.Arbitrary<HarnessCommand>[]>(
    fc.record({
      type: fc.constant("prompt" as const),
      inputId: fc.constant(""),
      content: fc.array(parts, { minLength: 1 }),
    }),
    fc.record({
      type: fc.constant("steer" as const),
      inputId: fc.constant(""),
      content: fc.array(parts, { minLength: 1 }),
    }),
    fc.constant({ type: "interrupt" }),
    fc.record({
      type: fc.constant("permission" as const),
      id: fc.constant(ask),
      reply: fc.constantFrom("once", "always", "reject"),
    }),
    fc.record({
      type: fc.constant("permission" as const),
      id: fc.constant(ask),
      reply: fc.constant("reject" as const),
      message: fc.string(),
    }),
  );

  it("is read back as the same commands", () => {
    expect(ask).not.toBe("");
    fc.assert(
      fc.property(commands, (command) => {
        const lines = amp.encode(asking as State, command);
        if (!Array.isArray(lines)) throw new Error(`no words for ${command.type}`);
        expect(
          lines.map((line: string) => amp.overhear?.(asking as State, { dir: "in", text: line, at: 0 })),
        ).toEqual([command]);
      }),
    );
  });

  it("is dropped when its request is closed", () => {
    expect(amp.encode(asking as State, { type: "permission", id: "perm_gone", reply: "once" })).toEqual([]);
  });
});

describe("Amp's output", () => {
  it("is decoded without a throw and twice the same, also where it is cut or changed", () => {
    const line = fc.constantFrom(...sample);
    const cut = fc.tuple(line, fc.nat()).map(([{ dir, text, at }, end]) => {
      return { dir, at, text: text.slice(0, end % (text.length + 1)) };
    });
    const value = fc.constantFrom("null", "[]", "{}", "1", '""', "true");
    const changed = fc.tuple(line, fc.nat(), value).map(([{ dir, text, at }, which, other]) => {
      const spots = [...text.matchAll(/:(\[[^\][]*\]|\{[^{}]*\}|"[^"]*"|\d+|null|true|false)/g)];
      const { index = 0, 0: old = "" } = spots[which % Math.max(1, spots.length)] ?? {};
      return { dir, at, text: `${text.slice(0, index)}:${other}${text.slice(index + old.length)}` };
    });
    fc.assert(
      fc.property(fc.array(fc.oneof(line, cut, changed), { maxLength: 30 }), (lines) => {
        expect(play(lines)).toEqual(play(lines));
      }),
      { numRuns: 300 },
    );
  });

  it("has one end per prompt, also with a late result", () => {
    const facts = play(sample);
    expect(facts.filter(({ type }) => type === "turn.ended")).toHaveLength(2);
    expect(facts.filter(({ type }) => type === "agent.unparsed")).toEqual([]);
  });

  it("does not take the result of the turn before for the end of this one", () => {
    const told = sample[0] as SpoolLine;
    const [last, result] = sample.slice(15, 17) as [SpoolLine, SpoolLine];
    const facts = play([told, last, told, result, sample[2] as SpoolLine, last]);
    expect(facts.flatMap((fact) => (fact.type === "turn.ended" ? [fact.data.status] : []))).toEqual([
      "completed",
      "completed",
    ]);
  });

  it("closes a question that Amp takes back", () => {
    const facts = play([
      ...sample.slice(0, 5),
      { dir: "out", text: '{"type":"permission.withdrawn","id":"ask_1"}', at: 5 },
    ]);
    expect(facts.at(-1)).toMatchObject({
      type: "permission.resolved",
      data: { action: "Bash", status: "denied" },
    });
  });

  it("shows a call once that is asked about before the model's message comes", () => {
    const [told, init, echo, message, ask] = sample as [
      SpoolLine,
      SpoolLine,
      SpoolLine,
      SpoolLine,
      SpoolLine,
    ];
    const facts = play([told, init, echo, ask, message, sample[6] as SpoolLine]);
    const items = facts.flatMap((fact) => (fact.type === "item.completed" ? [fact.data.item] : []));
    expect(items.map(({ kind, status }) => `${kind} ${status}`)).toEqual([
      "tool_call completed",
      "message completed",
      "tool_result completed",
    ]);
  });

  it("counts a message once that comes in several lines, and the cache apart", () => {
    const ended = play([piece("a", 0), piece("b", 1)]).filter(({ type }) => type === "model.ended");
    expect(ended).toMatchObject([
      { data: { usage: { input_tokens: 3, cache_read_tokens: 50, output_tokens: 1 } } },
    ]);
  });
});

/** One line of a message in several lines. */
function piece(text: string, at: number): SpoolLine {
  const usage = { input_tokens: 3, cache_read_input_tokens: 50, output_tokens: 1 };
  const message = { id: "m1", role: "assistant", content: [{ type: "text", text }], usage };
  return { dir: "out", at, text: JSON.stringify({ type: "assistant", message, parent_tool_use_id: null }) };
}

function play(lines: readonly SpoolLine[]): HarnessFact[] {
  return [...states(lines)].flatMap(({ facts }) => facts);
}

function* states(
  lines: readonly SpoolLine[] = sample,
): Generator<{ state: State; facts: readonly HarnessFact[] }> {
  let state = amp.initial(recordedContext("amp"));
  for (const line of lines) {
    const decoded = amp.decode(state, line);
    state = JSON.parse(JSON.stringify(decoded.state)) as State;
    yield { state, facts: decoded.facts };
  }
}
