import type { Chance } from "./chance.ts";

/** A turn of the scripted agent that ends by itself within a few seconds, unless it is killed. */
export function toScript(chance: Chance): string {
  const steps = Array.from({ length: 1 + chance.below(5) }, () => toStep(chance));
  return `#script ${JSON.stringify([...steps, { say: "the end" }])}`;
}

/** A turn of a real CLI: few steps, for each is a request to the model. */
export function toModelScript(chance: Chance): string {
  const step = chance.pick([
    { shell: `echo ${chance.below(100)}; sleep 0.${chance.below(9)}` },
    { write: { path: `f${chance.below(4)}.txt`, content: "x".repeat(chance.below(2_000)) } },
    { sleep: chance.below(1_500) },
    { think: "about it" },
  ]);
  return `#script ${JSON.stringify([{ say: "some words" }, step, { say: "the end" }])}`;
}

function toStep(chance: Chance): object {
  const name = `f${chance.below(4)}.txt`;
  return chance.pick<() => object>([
    () => ({ say: "some words that come one by one", chunks: 1 + chance.below(8) }),
    () => ({ think: "about it" }),
    () => ({ shell: `echo ${chance.below(100)}; sleep 0.${chance.below(9)}` }),
    () => ({ shell: `seq 1 ${1 + chance.below(2_000)}` }),
    () => ({ write: { path: name, content: "x".repeat(chance.below(5_000)) } }),
    () => ({ sleep: chance.below(800) }),
    () => ({ flood: { events: 50 + chance.below(1_000), bytes: 30 } }),
    () => ({ parallel: [{ shell: "echo one" }, { shell: "sleep 0.2; echo two" }] }),
    () => ({ subagent: { name: "r", steps: [{ say: "from below" }] } }),
    () => ({ plan: [{ content: "one", status: "pending", priority: "medium" }] }),
    () => ({ usage: { input_tokens: 1, output_tokens: 2 } }),
    () => ({ stderr: "a complaint" }),
    () => ({ fail: { kind: "overloaded", times: 1 } }),
    () => ({ ask: { shell: "echo asked" } }),
    () => ({ question: { prompt: "Which?", options: ["a", "b"] } }),
  ])();
}
