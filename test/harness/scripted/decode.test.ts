import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SpoolLine } from "../../../src/contract/index.ts";
import type { HarnessFact } from "../../../src/harness/port.ts";
import { scripted } from "../../../src/harness/scripted/harness.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { sample } from "./sample.ts";
import { expectLegal } from "./decoding.ts";

type State = ReturnType<typeof scripted.initial>;

function startOf(idPrefix: string): State {
  return scripted.initial({ ...recordedContext("scripted"), idPrefix });
}

function decodeAll(lines: readonly SpoolLine[], state: State = startOf("itm_p1n")) {
  const facts: HarnessFact[] = [];
  for (const line of lines) {
    const decoded = scripted.decode(state, line);
    state = decoded.state;
    facts.push(...decoded.facts);
  }
  return { facts, state };
}

const out = (text: string, at = 0): SpoolLine => ({ dir: "out", text, at });

const id = fc.constantFrom("a", "b", "c", "__proto__", "constructor", "toString");

const types = [
  ...new Set(sample.map((line) => (JSON.parse(line.text) as { type: string }).type)),
  "nope",
  "toString",
];

/** Lines that are nearly right: the sample's, with ids that clash, and keys that are gone or wrong. */
const nearlyRight = fc
  .record({
    type: fc.constantFrom(...types),
    id: fc.option(fc.oneof(id, fc.jsonValue()), { nil: undefined }),
    parent: fc.option(id, { nil: undefined }),
    text: fc.option(fc.oneof(fc.string(), fc.jsonValue()), { nil: undefined }),
    base: fc.constantFrom(...sample.map((line) => JSON.parse(line.text) as Record<string, unknown>)),
  })
  .map(({ base, type, ...rest }) => {
    const defined = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    return JSON.stringify({ ...base, ...(type === "nope" ? { type } : {}), ...defined });
  });

const damage = fc.record({
  reason: fc.constantFrom("utf8" as const, "too_long" as const),
  sha256: fc.constant("0".repeat(64)),
  bytes: fc.nat(),
});

const line: fc.Arbitrary<SpoolLine> = fc
  .record({
    dir: fc.constantFrom(..."out out out out in err exit meta sse".split(" ")) as fc.Arbitrary<
      SpoolLine["dir"]
    >,
    text: fc.oneof(fc.string({ unit: "binary" }), fc.json(), nearlyRight, nearlyRight, nearlyRight),
    at: fc.nat(),
    damage: fc.option(damage, { nil: undefined, freq: 20 }),
  })
  .map(({ damage, ...rest }) => (damage === undefined ? rest : Object.assign(rest, { damage })));

const lines = fc.array(line, { maxLength: 60 });

describe("decode", () => {
  it("never throws, and every fact follows the contract", () => {
    fc.assert(
      fc.property(lines, (given) => expectLegal(decodeAll(given).facts)),
      { numRuns: 500 },
    );
  });

  it("gives the same facts twice, and changes no state in place", () => {
    fc.assert(
      fc.property(lines, (given) => {
        let state = startOf("itm_x");
        for (const line of given) {
          const before = JSON.stringify(state);
          const first = scripted.decode(state, line);
          const second = scripted.decode(state, line);
          expect(JSON.stringify(second)).toBe(JSON.stringify(first));
          expect(JSON.stringify(state)).toBe(before);
          state = first.state;
        }
      }),
    );
  });

  it("goes on from a checkpoint at any line as if there had been none", () => {
    fc.assert(
      fc.property(lines, fc.nat(), (given, seed) => {
        const cut = seed % (given.length + 1);
        const head = decodeAll(given.slice(0, cut));
        const kept = JSON.parse(JSON.stringify(head.state)) as State;
        const tail = decodeAll(given.slice(cut), kept);
        const whole = decodeAll(given);
        expect(JSON.stringify([...head.facts, ...tail.facts])).toBe(JSON.stringify(whole.facts));
        expect(JSON.stringify(tail.state)).toBe(JSON.stringify(whole.state));
      }),
    );
  });

  it("makes exactly one unparsed fact of an `out` line that it does not know", () => {
    const noise = fc.oneof(
      fc.string().filter((text) => !text.startsWith("{")),
      fc.jsonValue().map((value) => JSON.stringify({ value })),
    );
    fc.assert(
      fc.property(noise, fc.nat(), (text, at) => {
        const { facts } = decodeAll([out(text, at)]);
        expect(facts).toEqual([
          {
            type: "agent.unparsed",
            data: {
              error: expect.any(String),
              location: `out:${at}`,
              raw_hash: createHash("sha256").update(text).digest("hex"),
            },
          },
        ]);
      }),
    );
  });

  it.each(["tool.called", "permission.asked", "tool.asked", "error"])("takes no bottomless %s", (type) => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const text = `{"type":"${type}","id":"a","call":"c","name":"n","code":"c","message":"m","input":${deep},"details":${deep}}`;
    const { facts } = decodeAll([out(text)]);
    expect(facts).toMatchObject([
      { type: "agent.unparsed", data: { error: expect.stringMatching(/nested more than 1000/) } },
    ]);
  });

  it.each(["__proto__", "constructor"])("takes %s for an id like any other", (native) => {
    const { facts, state } = decodeAll([
      out(`{"type":"text.started","id":"${native}"}`),
      out(`{"type":"text.delta","id":"${native}","text":"x"}`),
      out(`{"type":"text.ended","id":"${native}","text":"x"}`),
    ]);
    expect(facts.map((fact) => fact.type)).toEqual(["item.started", "item.delta", "item.completed"]);
    expect(Object.keys(state.items)).toEqual([]);
  });

  it("names a damaged line by the hash of its bytes", () => {
    const damage = { reason: "utf8" as const, sha256: "f".repeat(64), bytes: 12 };
    const { facts } = decodeAll([{ ...out('{"type":"turn.ended"}', 5), damage }]);
    expect(facts).toMatchObject([
      { type: "agent.unparsed", data: { location: "out:5", raw_hash: damage.sha256 } },
    ]);
  });

  it("keeps the very same state across a delta", () => {
    const { state } = decodeAll([out('{"type":"text.started","id":"m"}')]);
    const decoded = scripted.decode(state, out('{"type":"text.delta","id":"m","text":"x"}'));
    expect(decoded.state).toBe(state);
    expect(decoded.facts).toEqual([
      { type: "item.delta", data: { item_id: "itm_p1n1", native_item_id: "m", delta: "x" } },
    ]);
  });

  it("says nothing to stderr, exit and its own input", () => {
    const { facts } = decodeAll(
      (["err", "exit", "in", "meta", "http-in", "http-out", "sse"] as const).map((dir) => ({
        dir,
        text: "x",
        at: 0,
      })),
    );
    expect(facts).toEqual([]);
  });

  it("understands its whole sample", () => {
    const { facts, state } = decodeAll(sample);
    expect(facts.filter((fact) => fact.type === "agent.unparsed")).toEqual([]);
    expectLegal(facts);
    expect(state).toMatchObject({ items: {}, requests: {}, asks: {} });
  });

  it("gives ids that no other process of the session gives", () => {
    const facts = ["itm_p1n", "itm_p2n"].flatMap((idPrefix) => decodeAll(sample, startOf(idPrefix)).facts);
    const ids = facts.flatMap((fact) => {
      if (fact.type === "item.started") return [fact.data.item.item_id];
      if (fact.type === "permission.requested") return [fact.data.permission_id];
      if (fact.type === "question.requested") return [fact.data.question_id];
      if (fact.type === "tool.requested") return [fact.data.request_id];
      return fact.type === "model.started" ? [fact.data.request_id] : [];
    });
    expect(ids.length).toBeGreaterThan(20);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("encode", () => {
  it("translates an answer back, until it was sent or its turn is over", () => {
    const asked = [
      out('{"type":"turn.started","turn":1}'),
      out('{"type":"permission.asked","id":"native","call":"c","name":"shell","input":{}}'),
    ];
    const { state, facts } = decodeAll(asked);
    const [fact] = facts;
    if (fact?.type !== "permission.requested") throw new Error("no permission was requested");
    const command = { type: "permission" as const, id: fact.data.permission_id, reply: "once" as const };
    const [text] = scripted.encode(state, command) ?? [];
    expect(JSON.parse(text ?? "")).toEqual({ type: "permission", id: "native", reply: "once" });
    const sent = scripted.decode(state, { dir: "in", text: text ?? "", at: 9 }).state;
    expect(scripted.encode(sent, command)).toEqual([]);
    const over = scripted.decode(
      state,
      out('{"type":"turn.ended","turn":1,"stop_reason":"interrupted"}'),
    ).state;
    expect(scripted.encode(over, command)).toEqual([]);
  });

  it("writes every command as one line, with any content", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const command = { type: "prompt" as const, inputId: "i", content: [{ type: "text" as const, text }] };
        const written = scripted.encode(startOf(""), command) ?? [];
        expect(written).toHaveLength(1);
        expect(written[0]).not.toContain("\n");
        expect(JSON.parse(written[0] ?? "")).toMatchObject({ text });
      }),
    );
  });
});
