import type { Step } from "../harness/scripted/agent/step.ts";
import { type Part, textOf, toAnswer } from "./answer.ts";
import type { Ask, Entry } from "./ask.ts";
import { toCallId } from "./call-id.ts";
import type { ScriptCue } from "./cue.ts";
import { toDeltas } from "./deltas.ts";
import type { FailCounts } from "./fail-counts.ts";
import { toDigest } from "./history.ts";
import { asObject } from "./json.ts";
import { performSteps } from "./perform.ts";
import type { Response } from "./respond.ts";
import type { Round } from "./rounds.ts";
import { toSample } from "./schema-sample.ts";
import { toScene } from "./scene.ts";
import type { Calling, Scene } from "./tools/native.ts";
import { findWaits } from "./tools/subagent.ts";
import { findCalls, missingCall, searchCall, toCallSteps } from "./tools/toolbox.ts";

interface Circumstances {
  readonly id: string;
  readonly history: readonly Entry[];
  readonly counts: FailCounts;
}

/** The answer to the next round of a script. */
export function answerScript(ask: Ask, cue: ScriptCue, { id, history, counts }: Circumstances): Response {
  const round = cue.rounds[cue.done] ?? findRefusal(cue);
  const steps = round?.steps ?? [];
  const scene = toScene(ask, cue.steps.slice(0, round?.from));
  const asides = findAsides(steps, scene, cue);
  if (asides.length > 0) return toAnswer(ask, { id, parts: toCallParts(asides, id, { aside: true }) });
  // Not the script's own message as a whole: clients add to it when they ask again.
  const conversation = toDigest(history.slice(0, cue.at), `${ask.conversation} ${cue.script}`);
  const keys: string[] = [];
  const { parts, outcome, failure } = performSteps(steps, {
    history: cue.earlier.join("\n"),
    fails: (step) => {
      const key = `${conversation} ${(round?.from ?? 0) + steps.indexOf(step)}`;
      keys.push(key);
      // A request that cannot be answered cannot be answered the next time either.
      return counts.take(key, step.kind === "terminal" ? Infinity : step.times);
    },
  });
  if (failure !== undefined) return { id, failure };
  if (outcome !== "broken") counts.forget(keys);
  const usage = Object.assign({}, ...steps.map((step) => (step.do === "usage" ? step.usage : {})));
  if (outcome === "refused") return toAnswer(ask, { id, parts, stop: "refusal", usage });
  if (outcome === "broken") return toAnswer(ask, { id, parts, usage });
  const calls = toCallParts(findAllCalls(steps, scene, id), id);
  return toAnswer(ask, {
    id,
    parts: calls.length === 0 ? toEnd(parts, ask, id) : [...parts, ...calls],
    usage,
  });
}

/** A client that asks again behind a refusal is refused again. */
function findRefusal({ rounds }: ScriptCue): Round | undefined {
  const last = rounds.at(-1);
  return last?.steps.at(-1)?.do === "refuse" ? last : undefined;
}

/** What has to be done before the script can go on: sub-agents to wait for, tools to search for. */
function findAsides(steps: readonly Step[], scene: Scene, { asides }: ScriptCue): readonly Calling[] {
  const waits = asides.includes("wait_agent") ? [] : findWaits(scene.ask);
  if (waits.length > 0 || asides.some((name) => /search/i.test(name))) return waits;
  const missing = toCallSteps(steps).filter((step) => findCalls(step, scene, "") === undefined);
  return missing.flatMap((step) => searchCall(step, scene) ?? []);
}

function findAllCalls(steps: readonly Step[], scene: Scene, id: string): Calling[] {
  const calls: Calling[] = [];
  for (const step of toCallSteps(steps))
    calls.push(...(findCalls(step, scene, toCallId(id, calls.length)) ?? [missingCall(step)]));
  return calls;
}

function toCallParts(calls: readonly Calling[], id: string, options: { aside?: boolean } = {}): Part[] {
  return calls.map((call, index) => ({ do: "call", call: { ...call, id: toCallId(id, index, options) } }));
}

/** Clients take an answer without a word for a failure; Gemini's sub-agents end by a call. */
function toEnd(parts: readonly Part[], ask: Ask, id: string): readonly Part[] {
  const text = parts.map((part) => (part.do === "say" ? textOf(part.deltas) : "")).join("");
  const closing = text === "" ? [{ do: "say" as const, deltas: toDeltas("Done.") }] : [];
  const ending = ask.tools.find(({ name }) => name === "complete_task");
  if (ending === undefined) return [...parts, ...closing];
  const input = asObject(toSample(ending.schema, text === "" ? "Done." : text));
  return [...parts, ...toCallParts([{ name: ending.name, input }], id)];
}
