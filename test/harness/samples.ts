import type { SpoolLine } from "../../src/contract/index.ts";
import type { Harness } from "../../src/harness/port.ts";
import { sample as acp } from "./acp/sample.ts";
import { sample as amp } from "./amp/sample.ts";
import { sample as claude } from "./claude/sample.ts";
import { sample as codex } from "./codex/sample.ts";
import { sample as gemini } from "./gemini/sample.ts";
import { sample as grok } from "./grok/sample.ts";
import { sample as opencode } from "./opencode/sample.ts";
import { sample as scripted } from "./scripted/sample.ts";

const SAMPLES: Readonly<Record<string, readonly SpoolLine[]>> = {
  claude,
  codex,
  opencode,
  gemini,
  grok,
  amp,
  acp,
  scripted,
};

/** Native lines of an agent that show every feature of its decoder. */
export function sampleOf({ id }: Pick<Harness, "id">): readonly SpoolLine[] {
  const sample = SAMPLES[id];
  if (sample === undefined) throw new Error(`${id} has no sample`);
  return sample;
}

/** The harness with its sample, from which its coverage is computed. */
export function withSample(harness: Harness): Harness & { readonly sample: readonly SpoolLine[] } {
  return { ...harness, sample: sampleOf(harness) };
}
