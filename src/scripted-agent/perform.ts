import { setTimeout as delay } from "node:timers/promises";
import { BadScript } from "./fields.ts";
import { Refused } from "./halt.ts";
import { isModelFailure, type BranchStep, type QuestionStep, type Step, type ToolStep } from "./step.ts";
import type { Scope } from "./agent.ts";
import { flood, speak } from "./speech.ts";
import { callTool, executeTool } from "./tools/calls.ts";
import { applySettings, toTool } from "./tools/toolbox.ts";

/** Performs steps in order. If the turn is halted, it closes all open items and throws `Halted`. */
export async function performSteps(scope: Scope, steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    await scope.agent.output.drained();
    scope.signal.throwIfAborted();
    await performStep(scope, step);
  }
}

async function performStep(scope: Scope, step: Step): Promise<void> {
  const { output, memory, ids } = scope.agent;
  switch (step.do) {
    case "say":
      return speak(scope, "text", step.text === "$history" ? memory.history : step.text, step);
    case "think":
      return speak(scope, "thinking", step.text, step);
    case "plan":
      scope.produce(JSON.stringify(step.entries).length);
      return scope.emit({ type: "plan", id: ids.next("plan"), entries: step.entries, ...scope.parent });
    case "image":
      scope.produce(step.data.length);
      return scope.emit({
        type: "image",
        id: ids.next("img"),
        data: step.data,
        mime: step.mime,
        ...scope.parent,
      });
    case "parallel":
      return performBranches(scope, step.steps);
    case "usage":
      return scope.report(step.usage);
    case "fail":
      return performFailure(scope, step);
    case "refuse":
      scope.produce(step.reason.length);
      throw new Refused(step.reason);
    case "compact": {
      const summary = `${memory.turns} user messages so far.`;
      memory.compact(summary);
      return scope.emit({
        type: "compacted",
        id: ids.next("cmp"),
        trigger: "script",
        summary,
        ...scope.parent,
      });
    }
    case "flood":
      return flood(scope, step);
    case "stderr":
      process.stderr.write(step.text.endsWith("\n") ? step.text : `${step.text}\n`);
      return;
    case "raw":
      return output.text(`${step.text}\n`);
    case "rawBytes":
      return output.bytes(step.bytes);
    case "exit":
      await output.flush();
      process.exit(step.code);
      break;
    case "signal":
      return performSignal(scope, step.signal);
    default:
      return performBranches(scope, [step]);
  }
}

/** Announces all calls, ends the model's request, runs the calls in parallel, then says the texts that they return. */
async function performBranches(scope: Scope, steps: readonly BranchStep[]): Promise<void> {
  const branches = steps.map((step) => startBranch(scope, step));
  if (steps.some((step) => step.do !== "sleep")) scope.closeRequest();
  const results = await Promise.allSettled(branches.map((execute) => execute()));
  for (const result of results) {
    if (result.status === "rejected") throw result.reason;
  }
  for (const result of results) {
    if (result.status === "fulfilled" && result.value !== undefined) await speak(scope, "text", result.value);
  }
}

/** Runs a step; resolves to a text that the agent then says. */
type Branch = () => Promise<string | undefined>;

function startBranch(scope: Scope, step: BranchStep): Branch {
  if (step.do === "sleep") return () => sleep(scope, step.ms);
  if (step.do === "question") return startQuestion(scope, step);
  const tool = applySettings(scope.agent.toolSettings, toTool(step satisfies ToolStep, performSteps));
  const called = callTool(scope, tool);
  return () => executeTool(scope, called);
}

function startQuestion(scope: Scope, { prompt, options }: QuestionStep): Branch {
  scope.produce(prompt.length);
  return async () => {
    const id = scope.agent.ids.next("ques");
    const answer = scope.agent.answers.wait("answer", id, scope.signal);
    scope.emit({ type: "question.asked", id, prompt, options, ...scope.parent });
    const { answers, rejected, message } = await answer;
    if (rejected === true || answers === undefined) return message ?? "The question was rejected.";
    return answers.flat().join(", ");
  };
}

const LONGEST_TIMER = 2 ** 31 - 1;

async function sleep(scope: Scope, ms: number): Promise<undefined> {
  await delay(Math.min(ms, LONGEST_TIMER), undefined, { signal: scope.signal }).catch(() => {});
  scope.signal.throwIfAborted();
}

async function performFailure(scope: Scope, failure: Extract<Step, { do: "fail" }>): Promise<void> {
  const { kind } = failure;
  if (isModelFailure(kind)) {
    throw new BadScript(
      `fail.kind "${kind}" is for the scripted model; the scripted agent has no model to break`,
    );
  }
  for (let failed = 0; failed < failure.times; failed++) {
    scope.openRequest();
    const retried = scope.agent.answers.waitForRetry(scope.signal);
    scope.failRequest(kind);
    await retried;
  }
  scope.openRequest();
}

async function performSignal(scope: Scope, signal: NodeJS.Signals): Promise<void> {
  await scope.agent.output.flush();
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Gives the signal time to arrive. The script goes on if the signal does not kill the process.
  await sleep(scope, 500);
}
