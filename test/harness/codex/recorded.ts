import { readFileSync } from "node:fs";
import { join } from "node:path";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { codex } from "../../../src/harness/codex/harness.ts";
import type { Harness } from "../../../src/harness/port.ts";

export const FOLDER = join(import.meta.dirname, "../recordings/codex");

export function textOf(name: string): string {
  return readFileSync(join(FOLDER, `${name}.jsonl`), "utf8");
}

export function eventsOf(name: string): SluiceEvent[] {
  return toEvents(textOf(name));
}

export function toEvents(recording: string): SluiceEvent[] {
  return [...decodeEvents(codex as Harness, recording, "recording")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
}
