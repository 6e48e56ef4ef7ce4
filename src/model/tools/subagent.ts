import type { BareToolStep, Step } from "../../scripted-agent/step.ts";
import type { Ask } from "../ask.ts";
import { asObject, asText, type Json, parseJson } from "../json.ts";
import { type Calling, callNative, type Native, type Scene, toCalling } from "./native.ts";

/** A sub-agent, and the prompt with its part of the script. */
export interface Task {
  readonly name: string;
  readonly prompt: string;
}

export function callSubagentTool(task: Task, scene: Scene): Calling | undefined {
  return callNative(TASKS, task, scene);
}

/** The call's id comes first: two sub-agents with the same steps are two conversations. */
export function toTask(step: Extract<BareToolStep, { do: "subagent" }>, id: string): Task {
  return { name: step.name, prompt: `Task ${id}: ${step.name}\n${toScript(step.steps)}` };
}

/** Codex's sub-agents run in the background. Makes a wait for each one that the newest answer started. */
export function findWaits(ask: Ask): Calling[] {
  const wait = ask.tools.find(({ name }) => name === "wait_agent");
  const newest = ask.entries.findLastIndex((entry) => entry.by === "model");
  if (wait === undefined || newest === -1) return [];
  const results = ask.entries.slice(newest + 1).flatMap((entry) => (entry.by === "tool" ? entry.texts : []));
  const ids = results.map((text) => toAgentId(asObject(parseJson(text)))).filter(Boolean);
  return ids.map((id) => toCalling(wait, { targets: [id], timeout_ms: LONGEST_WAIT_MS }));
}

/** The id of a started sub-agent, "" for any other result. New versions of Codex use the task's name as the id. */
function toAgentId({ agent_id: id, task_name: task }: Json): string {
  return asText(id) || asText(task);
}

const LONGEST_WAIT_MS = 600_000;

/** Clients with a choice run the sub-agent in the foreground, so that the script goes on when it is done. */
const TASKS: readonly Native<Task>[] = [
  { tool: "Agent", input: (task) => ({ ...toInput(task), subagent_type: "general-purpose" }) },
  { tool: "Task", input: (task) => ({ ...toInput(task), subagent_type: "general-purpose" }) },
  { tool: "task", input: (task) => ({ ...toInput(task), subagent_type: "general" }) },
  { tool: "spawn_subagent", input: toInput },
  { tool: "invoke_agent", input: ({ prompt }) => ({ agent_name: "generalist", prompt }) },
  {
    tool: "spawn_agent",
    input: ({ name, prompt }) => ({ message: prompt, task_name: name.replaceAll(/\W/g, "_").toLowerCase() }),
  },
];

function toInput({ name, prompt }: Task) {
  return { description: name, prompt, run_in_background: false, background: false };
}

/** Turns parsed steps back into a script, for the prompt of a sub-agent. */
function toScript(steps: readonly Step[]): string {
  return `#script ${JSON.stringify(steps.flatMap((step) => toSource(step) ?? []))}`;
}

/** Undefined for a step that a model cannot do. */
function toSource(step: Step): unknown {
  switch (step.do) {
    case "say":
    case "think":
      return { [step.do]: step.text, ...(step.chunks === undefined ? {} : { chunks: step.chunks }) };
    case "shell":
      return { shell: step.command };
    case "read":
    case "delete":
      return { [step.do]: step.path };
    case "write":
    case "edit":
    case "custom":
    case "mcp":
    case "question":
    case "fail":
    case "flood": {
      const { do: name, ...fields } = step;
      return { [name]: fields };
    }
    case "subagent":
      return { subagent: { name: step.name, steps: step.steps.flatMap((nested) => toSource(nested) ?? []) } };
    case "ask":
      return { ask: toSource(step.tool) };
    case "parallel":
      return { parallel: step.steps.map(toSource) };
    case "plan":
      return { plan: step.entries };
    case "usage":
      return { usage: step.usage };
    case "refuse":
      return { refuse: step.reason };
    case "sleep":
      return { sleep: step.ms };
    default:
      return undefined;
  }
}
