import type { Step } from "../scripted-agent/step.ts";
import { type ModelResponse, type Part, textOf, toAnswer, toCallId, toDeltas } from "./answer.ts";
import { type Ask, type Entry, toDigest, toHistory } from "./ask.ts";
import { type Cue, findCue, type Round, type ScriptCue } from "./cue.ts";
import { asObject } from "./json.ts";
import { performSteps } from "./perform.ts";
import { answerSideCall, type SideAnswer, toSample } from "./side-call.ts";
import { type Calling, type Scene, toScene } from "./tools/native.ts";
import { findWaits } from "./tools/subagent.ts";
import { findCalls, missingCall, searchCall, toCallSteps } from "./tools/toolbox.ts";

/** The model's answer: a pure function of the request, except that scripted failures are counted. */
export function respond(ask: Ask, counts: FailCounts): ModelResponse {
  const history = toHistory(ask.entries);
  const id = toDigest(history, String(ask.tools.length));
  let cue: Cue;
  try {
    cue = findCue(history);
  } catch (error) {
    return { id, failure: "terminal", message: error instanceof Error ? error.message : String(error) };
  }
  const side = answerSideCall(ask, cue);
  if (side !== undefined) return toAnswer(ask, { id, parts: toSideParts(side, id) });
  if (cue.kind === "plain") return toAnswer(ask, { id, parts: toPlainParts(cue.text, history) });
  return answerScript(ask, cue, { id, history, counts });
}

function toSideParts(side: SideAnswer, id: string): Part[] {
  if ("say" in side) return [{ do: "say", deltas: toDeltas(side.say) }];
  return [{ do: "call", call: { id: toCallId(id, 0), name: side.tool, input: side.input } }];
}

const LONGEST_QUOTE = 10_000;

function toPlainParts(prompt: string, history: readonly Entry[]): Part[] {
  if (history.at(-1)?.by === "tool") return [{ do: "say", deltas: toDeltas("Done.") }];
  const quote = prompt.length > LONGEST_QUOTE ? `${prompt.slice(0, LONGEST_QUOTE)}…` : prompt;
  const answer = `You said: “${quote}” There is no model behind me; a line that starts with #script says what I do.`;
  return [
    { do: "think", deltas: toDeltas("A prompt without a script: I will quote it.") },
    { do: "say", deltas: toDeltas(answer) },
  ];
}

/** The answer to the next round of a script. */
function answerScript(
  ask: Ask,
  cue: ScriptCue,
  { id, history, counts }: { id: string; history: readonly Entry[]; counts: FailCounts },
): ModelResponse {
  const round = cue.rounds[cue.done] ?? findRefusal(cue);
  const steps = round?.steps ?? [];
  const scene = toScene(ask, cue.steps.slice(0, round?.from));
  const asides = findAsides(steps, scene, cue);
  if (asides.length > 0) return toAnswer(ask, { id, parts: toCallParts(asides, id, { aside: true }) });
  // The digest leaves out the script's own message: clients add text to it when they repeat a request.
  const conversation = toDigest(history.slice(0, cue.at), `${ask.conversation} ${cue.script}`);
  const keys: string[] = [];
  const { parts, outcome, failure } = performSteps(steps, {
    history: cue.earlier.join("\n"),
    fails: (step) => {
      const key = `${conversation} ${(round?.from ?? 0) + steps.indexOf(step)}`;
      keys.push(key);
      // A terminal failure is permanent.
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
    parts: calls.length === 0 ? toLastParts(parts, ask, id) : [...parts, ...calls],
    usage,
  });
}

/** The round that refuses, if the script has one. A repeated request gets the same refusal. */
function findRefusal({ rounds }: ScriptCue): Round | undefined {
  const last = rounds.at(-1);
  return last?.steps.at(-1)?.do === "refuse" ? last : undefined;
}

/** Calls that have to come before the next step: waits for sub-agents, searches for tools. */
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

/**
 * The last parts of a turn. They have a text, because clients take an answer without text for a failure. A sub-agent of
 * Gemini ends with a call of its tool `complete_task` instead.
 */
function toLastParts(parts: readonly Part[], ask: Ask, id: string): readonly Part[] {
  const text = parts.map((part) => (part.do === "say" ? textOf(part.deltas) : "")).join("");
  const closing = text === "" ? [{ do: "say" as const, deltas: toDeltas("Done.") }] : [];
  const ending = ask.tools.find(({ name }) => name === "complete_task");
  if (ending === undefined) return [...parts, ...closing];
  const input = asObject(toSample(ending.schema, text === "" ? "Done." : text));
  return [...parts, ...toCallParts([{ name: ending.name, input }], id)];
}

/** How many times each scripted failure has happened, by step and conversation: the model's only memory. */
export class FailCounts {
  readonly #counts = new Map<string, number>();

  /** Counts a failure and returns true, until it has happened `times` times. */
  take(key: string, times: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= times) return false;
    this.#counts.set(key, count + 1);
    if (this.#counts.size > MAX_COUNTS) this.#counts.delete(this.#counts.keys().next().value ?? "");
    return true;
  }

  /** Resets the counts after an answer, so that a new run of the conversation fails again. */
  forget(keys: readonly string[]): void {
    for (const key of keys) this.#counts.delete(key);
  }

  clear(): void {
    this.#counts.clear();
  }
}

const MAX_COUNTS = 10_000;
