import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeEvents } from "../../src/cli/decode-events.ts";
import { agUi } from "../../src/dialects/ag-ui/project.ts";
import { anthropic } from "../../src/dialects/anthropic/project.ts";
import { content } from "../../src/dialects/sdk/project.ts";
import { ndjson } from "../../src/dialects/ndjson/index.ts";
import type { Dialect, StoredEventText } from "../../src/dialects/port.ts";
import { findHarness } from "../../src/harness/index.ts";

const RECORDINGS = resolve(import.meta.dirname, "../harness/recordings");
const HARNESSES: Readonly<Record<string, string>> = {
  amp: "amp",
  claude: "claude",
  codex: "codex",
  gemini: "gemini",
  grok: "grok",
  opencode: "opencode",
  "claude-agent-acp": "acp",
};
/** Names of properties that every object inherits. */
const HOSTILE = ["__proto__", "constructor", "toString"];
/** Replaces the id in the compared frames. */
const ID = "<the id>";

const decode = (harness: string, text: string): StoredEventText[] => [
  ...decodeEvents(findHarness(harness), text, "hostile"),
];

function framesOf<State, View extends object>(
  dialect: Dialect<State, View>,
  events: readonly StoredEventText[],
): string[] {
  let state = dialect.initial({} as View);
  return events.flatMap((event) => {
    const projected = dialect.project(state, event);
    state = projected.state;
    return projected.frames.map(({ data }) => data);
  });
}

/** The frames of a log in every dialect, without hashes and byte positions. */
function toldOf(events: readonly StoredEventText[], id: string): string[] {
  const texts = [
    ...events.map(({ body }) => body),
    ...framesOf(agUi, events),
    ...framesOf(anthropic, events),
    ...framesOf(content, events),
    ...framesOf(ndjson, events),
  ];
  return texts.map((text) =>
    // Gemini takes a tool's name from its call's id, up to its last separator.
    text
      .replaceAll(id, ID)
      .replaceAll(/"__proto\\?"/g, (name) => name.replace("__proto", ID))
      .replaceAll(/"(?:location|raw_hash)":"[^"]*"/g, '"-":"-"'),
  );
}

/** The ids that the agent gave its calls and items in a recording. */
function nativeIds(events: readonly StoredEventText[]): string[] {
  const found = events.flatMap(({ body }) => [
    ...body.matchAll(/"(?:call_id|native_item_id|toolCallId)":"([^"\\]{6,})"/g),
  ]);
  return [...new Set(found.map(([, id]) => id ?? ""))];
}

describe.each(Object.entries(HARNESSES))("ids in the recordings of %s", (folder, harness) => {
  const names = readdirSync(join(RECORDINGS, folder)).filter((name) => name.endsWith(".jsonl"));
  it.each(names)("%s gives the same frames for any names of its calls", (name) => {
    const text = readFileSync(join(RECORDINGS, folder, name), "utf8");
    const plain = decode(harness, text);
    for (const [index, id] of nativeIds(plain).slice(0, 6).entries()) {
      const hostile = HOSTILE[index % HOSTILE.length] as string;
      const events = decode(harness, text.replaceAll(id, hostile));
      expect(toldOf(events, hostile)).toEqual(toldOf(decode(harness, text.replaceAll(id, ID)), ID));
    }
  });
});
