import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent, SpoolLine } from "../../../src/contract/index.ts";
import { codex } from "../../../src/harness/codex/harness.ts";
import { coverageOf, FEATURES } from "../../../src/harness/coverage.ts";
import type { Harness, HarnessFact } from "../../../src/harness/port.ts";
import { decodeRecording, parseRecording, recordedContext } from "../../../src/harness/recording.ts";
import { requireAgent } from "../../support/agents.ts";
import { ofType } from "../../support/engine.ts";
import { expectItemsClose, expectTurnsEnd } from "../../support/laws.ts";

const FOLDER = join(import.meta.dirname, "../recordings/codex");
const RECORDINGS = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".jsonl"))
  .map((name) => name.replace(".jsonl", ""));

describe("Codex's recordings", () => {
  it.each(RECORDINGS)("%s: nothing unparsed, everything closed, one end per prompt", (name) => {
    const events = eventsOf(name);
    expect(ofType(events, "agent.unparsed")).toEqual([]);
    expectTurnsEnd(events);
    expectItemsClose(events);
    const prompts = messagesOf(name, "in").filter(({ method }) => method === "turn/start");
    const asked = ofType(events, "turn.started").filter((event) => event.data.input_ids.length > 0);
    if (name.startsWith("app_")) expect(asked).toHaveLength(prompts.length);
  });

  it.each(RECORDINGS)("%s: the text is the model's, with replays once", (name) => {
    const told = ofType(eventsOf(name), "item.completed")
      .filter((event) => event.parent_id === undefined && event.data.item.parent_id === undefined)
      .flatMap(({ data }) => (data.item.role === "assistant" ? data.item.content : []))
      .flatMap((part) => (part.type === "text" || part.type === "reasoning" ? [part.text] : []));
    expect(told).toEqual(name.startsWith("exec_") ? execTexts(name) : appTexts(name));
  });

  it.each(RECORDINGS)("%s: the deltas of each text add up to it", (name) => {
    const streamed = new Map<string, string>();
    for (const event of eventsOf(name)) {
      if (event.type === "item.delta") {
        streamed.set(event.data.item_id, (streamed.get(event.data.item_id) ?? "") + event.data.delta);
      }
      if (event.type !== "item.completed" || event.data.item.kind !== "message") continue;
      const { item } = event.data;
      const text = item.content.map((part) => ("text" in part ? part.text : "")).join("");
      if (item.role === "assistant") expect(streamed.get(item.item_id) ?? "").toBe(text);
    }
  });

  it.each(RECORDINGS)("%s: the same facts from a state that went through JSON after every line", (name) => {
    const whole = [...decodeRecording(codex as Harness, linesOf(name))].flatMap(({ facts }) => facts);
    let state = codex.initial(recordedContext("codex"));
    const facts: HarnessFact[] = [];
    for (const line of linesOf(name)) {
      const decoded = codex.decode(state, line);
      facts.push(...decoded.facts);
      state = JSON.parse(JSON.stringify(decoded.state));
    }
    expect(facts).toEqual(whole);
  });

  it.each(RECORDINGS.filter((name) => name.startsWith("app_")))(
    "%s: a thread's requests add up to Codex's own count of its turns",
    (name) => {
      const counts = messagesOf(name, "out")
        .filter(({ method }) => method === "thread/tokenUsage/updated")
        .map(({ params }) => params as UsageNote);
      const turns = new Set(
        messagesOf(name, "out").flatMap(({ method, params }) =>
          method === "turn/started" ? [(params as { turn: { id: string } }).turn.id] : [],
        ),
      );
      const sent = counts.filter(({ turnId }) => turns.has(turnId)).map(({ tokenUsage }) => tokenUsage.last);
      const usages = ofType(eventsOf(name), "model.ended").map((event) => event.data.usage ?? {});
      const sum = (...keys: (keyof (typeof usages)[number])[]): number =>
        usages.reduce((all, usage) => all + keys.reduce((one, key) => one + (usage[key] ?? 0), 0), 0);
      const count = (key: keyof Counts): number => sent.reduce((all, usage) => all + usage[key], 0);
      expect(sum("input_tokens", "cache_read_tokens", "cache_write_tokens")).toBe(count("inputTokens"));
      expect(sum("output_tokens")).toBe(count("outputTokens"));
      expect(sum("cache_read_tokens")).toBe(count("cachedInputTokens"));
      expect(sum("reasoning_tokens")).toBe(count("reasoningOutputTokens"));
    },
  );
});

describe("Codex's coverage", () => {
  it("has every feature", ({ skip }) => {
    const { path, reason } = requireAgent("codex");
    if (path === undefined) return skip(reason);
    const coverage = coverageOf(codex as Harness);
    expect(FEATURES.filter((feature) => !coverage[feature])).toEqual([]);
  });
});

interface Counts {
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningOutputTokens: number;
}
interface UsageNote {
  turnId: string;
  tokenUsage: { last: Counts };
}

function textOf(name: string): string {
  return readFileSync(join(FOLDER, `${name}.jsonl`), "utf8");
}

function linesOf(name: string): SpoolLine[] {
  return parseRecording(textOf(name));
}

function eventsOf(name: string): SluiceEvent[] {
  return [...decodeEvents(codex as Harness, textOf(name), "recording")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
}

type Message = {
  id?: unknown;
  method?: string;
  params?: unknown;
  type?: string;
  item?: { type: string; text?: string };
};

function messagesOf(name: string, dir: SpoolLine["dir"]): Message[] {
  return linesOf(name)
    .filter((line) => line.dir === dir && line.text.startsWith("{"))
    .map((line) => JSON.parse(line.text) as Message);
}

function execTexts(name: string): string[] {
  return messagesOf(name, "out").flatMap(({ type, item }) =>
    type === "item.completed" && (item?.type === "agent_message" || item?.type === "reasoning")
      ? [item.text ?? ""]
      : [],
  );
}

/** The streamed texts of the main thread, by item. An item that a retry repeats counts once. */
function appTexts(name: string): string[] {
  const texts: { id: string; text: string }[] = [];
  let main: string | undefined;
  let replayed: string | undefined;
  for (const { method, params } of messagesOf(name, "out")) {
    const { threadId, itemId, delta } = (params ?? {}) as {
      threadId?: string;
      itemId?: string;
      delta?: string;
    };
    main ??= threadId;
    if (method === "error")
      replayed = (params as { willRetry: boolean }).willRetry ? texts.pop()?.text : undefined;
    if (threadId !== main || itemId === undefined || delta === undefined) continue;
    if (method !== "item/agentMessage/delta" && method !== "item/reasoning/summaryTextDelta") continue;
    const known = texts.find(({ id }) => id === itemId);
    if (known) known.text += delta;
    else texts.push({ id: itemId, text: delta });
  }
  expect(replayed === undefined || (texts.at(-1)?.text ?? "").startsWith(replayed)).toBe(true);
  return texts.map(({ text }) => text);
}
