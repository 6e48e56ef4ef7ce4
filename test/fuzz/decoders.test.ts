import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EVENT_DATA, type EventType, type SpoolLine } from "../../src/contract/index.ts";
import { findHarness, harnesses } from "../../src/harness/index.ts";
import type { Decoded, Harness } from "../../src/harness/port.ts";
import { parseRecording, recordedContext } from "../../src/harness/recording.ts";
import { fuzz } from "./fuzz.ts";
import { deepText, mutate, type Mutation, mutation, toText } from "./mutations.ts";
import { sampleOf } from "../harness/samples.ts";

const RECORDINGS = resolve(import.meta.dirname, "../harness/recordings");
const AGENT_OF: Readonly<Record<string, string>> = {
  "claude-2.1.197": "claude",
  "claude-agent-acp": "acp",
  "codex-acp": "acp",
  "opencode-acp": "acp",
};
const LONGEST = 80;

/** Real lines of each agent, by agent. */
const recordings = new Map<string, SpoolLine[][]>(
  harnesses.map((harness) => [harness.id, [sampleOf(harness).slice(0, LONGEST)]]),
);
for (const folder of readdirSync(RECORDINGS)) {
  const files = readdirSync(join(RECORDINGS, folder)).filter((name) => name.endsWith(".jsonl"));
  const all = recordings.get(AGENT_OF[folder] ?? folder);
  for (const file of files)
    all?.push(parseRecording(readFileSync(join(RECORDINGS, folder, file), "utf8")).slice(0, LONGEST));
}

interface Case {
  readonly agent: string;
  readonly recording: number;
  readonly changes: readonly Change[];
}

type Change =
  | { readonly kind: "mutate"; readonly line: number; readonly mutation: Mutation }
  | { readonly kind: "cut" | "twice" | "away"; readonly line: number; readonly by: number }
  | { readonly kind: "insert"; readonly line: number; readonly text: string; readonly dir: SpoolLine["dir"] };

const line = fc.nat({ max: 500 });
const dirs = fc.constantFrom(
  ..."out out out in err sse http-in http-out exit meta".split(" "),
) as fc.Arbitrary<SpoolLine["dir"]>;
const words = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.json(),
  fc.constantFrom(
    deepText(100_000),
    deepText(10_000, ["[", "]"]),
    "{",
    "[]",
    "null",
    '{"type":',
    '{"a":1}{"a":1}',
  ),
);
const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("mutate"), line, mutation }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("cut", "twice", "away"), line, by: fc.nat() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("insert"), line, text: words, dir: dirs }) },
) as fc.Arbitrary<Change>;

const casesOf = (agent: string): fc.Arbitrary<Case> =>
  fc.record({
    agent: fc.constant(agent),
    recording: fc.nat({ max: 300 }),
    changes: fc.array(change, { minLength: 1, maxLength: 6 }),
  });

function toLines({ agent, recording, changes }: Case): SpoolLine[] {
  const all = recordings.get(agent) ?? [];
  const lines = [...(all[recording % all.length] ?? [])];
  for (const change of changes) {
    const at = lines.length === 0 ? 0 : change.line % lines.length;
    const found = lines[at];
    if (change.kind === "insert") {
      // A line has no newline in it.
      const text = change.text.replaceAll(/[\r\n]/g, " ");
      lines.splice(at, 0, { dir: change.dir, text, at });
      continue;
    }
    if (!found) continue;
    if (change.kind === "twice") lines.splice(at, 0, found);
    if (change.kind === "away") lines.splice(at, 1);
    if (change.kind === "cut")
      lines[at] = { ...found, text: found.text.slice(0, change.by % (found.text.length + 1)) };
    if (change.kind === "mutate") lines[at] = { ...found, text: mutateText(found.text, change.mutation) };
  }
  return lines;
}

function mutateText(text: string, mutation: Mutation): string {
  try {
    return toText(mutate(JSON.parse(text), mutation));
  } catch {
    return text.split("").toReversed().join("");
  }
}

function check(given: Case): void {
  const harness = findHarness(given.agent) as Harness;
  let state = harness.initial(recordedContext(harness.id));
  for (const line of toLines(given)) {
    const before = JSON.stringify(state);
    const decoded = harness.decode(state, line);
    // Pure: a state that went through JSON gives the same result.
    expect(JSON.stringify(state) === before, "the state was changed in place").toBe(true);
    const again = harness.decode(JSON.parse(before) as unknown, line);
    expect(toComparable(again)).toBe(toComparable(decoded));
    assertLegal(decoded, line);
    harness.overhear?.(state, line);
    ({ state } = decoded);
  }
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
}

function toComparable({ state, facts, replies }: Decoded<unknown>): string {
  return JSON.stringify([state, facts, replies]);
}

function assertLegal({ facts, replies = [] }: Decoded<unknown>, line: SpoolLine): void {
  for (const fact of facts) {
    if (fact.type === "model.failed") continue;
    const parsed = EVENT_DATA[fact.type satisfies EventType].safeParse(fact.data);
    if (!parsed.success)
      throw new Error(`${fact.type} ${JSON.stringify(fact.data)}: ${parsed.error.message}`);
  }
  for (const reply of replies) expect(reply).not.toContain("\n");
  const isUnparsed = facts.some(({ type }) => type === "agent.unparsed");
  // The log keeps a line that is told of as JSON, as it is. How it ended, its wrapper writes.
  if (line.dir !== "exit" && facts.length > 0 && !isUnparsed && line.text.startsWith("{") && !line.damage)
    JSON.parse(line.text);
}

/** Lines that failed once, with the lines before them. */
const FINDINGS: Readonly<Record<string, readonly Case[]>> = {
  claude: [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
  ].map((type) => ({
    agent: "claude",
    recording: 0,
    changes: [
      {
        kind: "insert",
        line: 0,
        dir: "out",
        text: JSON.stringify({
          type: "stream_event",
          event: { type, index: 1 },
          parent_tool_use_id: "__proto__",
        }),
      },
    ],
  })),
  opencode: [
    {
      agent: "opencode",
      recording: 5,
      changes: [{ kind: "mutate", line: 285, mutation: { kind: "set", at: 4922, nasty: 18 } }],
    },
  ],
};

describe.each(harnesses.map(({ id }) => [id]))("the decoder of %s", (agent) => {
  fuzz("takes any line of its agent", {
    inputs: casesOf(agent),
    findings: FINDINGS[agent] ?? [],
    tries: 150,
    check,
  });

  it("tells of every line that is no JSON", () => {
    const harness = findHarness(agent) as Harness;
    const state = harness.initial(recordedContext(agent));
    for (const text of [
      deepText(100_000),
      deepText(200_000, ["[", "]"]),
      "\u0000",
      "{",
      '{"type":"__proto__"',
    ])
      expect(
        harness.decode(state, { dir: "out", text, at: 0 }).facts.length,
        text.slice(0, 20),
      ).toBeGreaterThan(0);
  });
});
