import type { QuestionStep, Step, ToolStep } from "../../harness/scripted/agent/step.ts";
import { asObject } from "../json.ts";
import { callFileTool } from "./files.ts";
import { callCustomTool, callMcpTool } from "./named.ts";
import type { Calling, Scene } from "./native.ts";
import { callPlanTool } from "./plan.ts";
import { callQuestionTool } from "./question.ts";
import { searchFor } from "./search.ts";
import { callShell } from "./shell.ts";
import { callSubagentTool, toTask } from "./subagent.ts";

export type CallStep = ToolStep | QuestionStep | Extract<Step, { do: "plan" }>;

/** The steps among these that are calls; `parallel` gives several. */
export function toCallSteps(steps: readonly Step[]): CallStep[] {
  return steps
    .flatMap((step): readonly Step[] => (step.do === "parallel" ? step.steps : [step]))
    .filter(isCallStep);
}

/** The client's own calls for a step; undefined where it offers no tool for it. `id` is the first call's. */
export function findCalls(step: CallStep, scene: Scene, id: string): readonly Calling[] | undefined {
  if (step.do === "plan") return callPlanTool(step, scene);
  const calling = findCall(step, scene, id);
  return calling === undefined ? undefined : [calling];
}

function findCall(step: Exclude<CallStep, { do: "plan" }>, scene: Scene, id: string): Calling | undefined {
  switch (step.do) {
    // The client asks by itself.
    case "ask":
      return findCall(step.tool, scene, id);
    case "shell":
      return callShell(step.command, scene);
    case "question":
      return callQuestionTool(step, scene);
    case "subagent":
      return callSubagentTool(toTask(step, id), scene);
    case "mcp":
      return callMcpTool(step, scene);
    case "custom":
      return callCustomTool(step, scene);
    default:
      return callFileTool(step, scene);
  }
}

/** The search that may find a missing tool; undefined where the client has none. */
export function searchCall(step: CallStep, scene: Scene): Calling | undefined {
  return searchFor(toWords(step.do === "ask" ? step.tool : step), scene);
}

/** A call of a tool that is not there: the client tells the model so, and the script goes on. */
export function missingCall(step: CallStep): Calling {
  const { do: name, ...input } = step.do === "ask" ? step.tool : step;
  if (step.do === "custom") return { name: step.name, input: asObject(step.input) };
  if (step.do === "mcp") return { name: `mcp__${step.server}__${step.tool}`, input: asObject(step.input) };
  return { name, input };
}

function toWords(step: Exclude<CallStep, { do: "ask" }>): { names: string[]; words: string } {
  switch (step.do) {
    case "plan":
      return { names: ["TaskCreate", "TaskUpdate", "TodoWrite"], words: "update plan todo tasks" };
    case "question":
      return { names: ["AskUserQuestion"], words: "ask the user a question" };
    case "subagent":
      return { names: ["Agent", "Task"], words: "spawn agent" };
    case "mcp":
      return { names: [`mcp__${step.server}__${step.tool}`], words: `${step.server} ${step.tool}` };
    case "custom":
      return { names: [step.name], words: step.name };
    default:
      return { names: [step.do], words: step.do };
  }
}

function isCallStep(step: Step): step is CallStep {
  return KINDS.has(step.do);
}

const KINDS = new Set<Step["do"]>([
  "shell",
  "write",
  "edit",
  "read",
  "delete",
  "custom",
  "mcp",
  "subagent",
  "ask",
  "question",
  "plan",
]);
