import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent, SpoolLine } from "../../../src/contract/index.ts";
import { acp } from "../../../src/harness/acp/harness.ts";
import { gemini } from "../../../src/harness/gemini/harness.ts";
import { grok } from "../../../src/harness/grok/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";
import { parseRecording } from "../../../src/harness/recording.ts";

const ROOT = join(import.meta.dirname, "../recordings");

/** The folders of recordings, with the adapter of each. */
const READERS: Readonly<Record<string, Harness>> = {
  gemini: gemini as Harness,
  grok: grok as Harness,
  "claude-agent-acp": acp as Harness,
  "codex-acp": acp as Harness,
  "opencode-acp": acp as Harness,
};

export const RECORDINGS: readonly string[] = Object.keys(READERS).flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => `${folder}/${name.replace(/\.jsonl$/, "")}`),
);

export function readerOf(name: string): Harness {
  const harness = READERS[name.split("/")[0] ?? ""];
  if (!harness) throw new Error(`nobody reads ${name}`);
  return harness;
}

export function linesOf(name: string): SpoolLine[] {
  return parseRecording(textOf(name));
}

export function eventsOf(name: string): SluiceEvent[] {
  return [...decodeEvents(readerOf(name), textOf(name), "ses_test")].map(({ body }) => JSON.parse(body));
}

function textOf(name: string): string {
  return readFileSync(join(ROOT, `${name}.jsonl`), "utf8");
}
