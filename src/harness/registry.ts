import { SluiceError } from "../contract/index.ts";
import { acp } from "./acp/harness.ts";
import { amp } from "./amp/harness.ts";
import { claude } from "./claude/harness.ts";
import { codex } from "./codex/harness.ts";
import { gemini } from "./gemini/harness.ts";
import { grok } from "./grok/harness.ts";
import { opencode } from "./opencode/harness.ts";
import type { Harness } from "./port.ts";
import { scripted } from "./scripted/harness.ts";

/** Every agent that sluice can run. Adding one is a folder and a line here. */
export const harnesses: readonly Harness[] = [
  claude,
  codex,
  opencode,
  gemini,
  grok,
  amp,
  acp,
  scripted,
] as Harness[];

export function findHarness(id: string, known: readonly Harness[] = harnesses): Harness {
  const found = known.find((harness) => harness.id === id);
  if (found !== undefined) return found;
  const ids = known.map((harness) => harness.id);
  const nearest = ids.toSorted((a, b) => distance(id, a) - distance(id, b))[0];
  const isNear = nearest !== undefined && distance(id, nearest) <= Math.ceil(nearest.length / 3);
  const hint = isNear ? ` Did you mean "${nearest}"?` : "";
  throw new SluiceError(
    "unsupported_agent",
    `There is no agent "${id}".${hint} Known agents: ${ids.join(", ")}.`,
    {
      agent: id,
      agents: ids,
    },
  );
}

/** The edit distance of two words. */
function distance(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > to.length) return Infinity;
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...from.toLowerCase()].entries()) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j++) {
      const changed = (row[j] ?? 0) + (letter === to[j] ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? Infinity;
}
