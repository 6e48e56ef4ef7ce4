import type { BareToolStep } from "../../harness/scripted/agent/step.ts";
import type { Ask } from "../ask.ts";
import { asObject, asText, type Json, parseJson } from "../json.ts";
import { toScript } from "../script-source.ts";
import { callNative, type Calling, type Native, type Scene, toCalling } from "./native.ts";

/** A sub-agent with the prompt that makes it play its part of the script. */
export interface Task {
  readonly name: string;
  readonly prompt: string;
}

export function callSubagentTool(task: Task, scene: Scene): Calling | undefined {
  return callNative(TASKS, task, scene);
}

/** The id of the call stands before it: two sub-agents with the same steps are two conversations. */
export function toTask(step: Extract<BareToolStep, { do: "subagent" }>, id: string): Task {
  return { name: step.name, prompt: `Task ${id}: ${step.name}\n${toScript(step.steps)}` };
}

/** Codex starts its sub-agents behind the model's back; a wait for each that the newest answer started. */
export function findWaits(ask: Ask): Calling[] {
  const wait = ask.tools.find(({ name }) => name === "wait_agent");
  const newest = ask.entries.findLastIndex((entry) => entry.by === "model");
  if (wait === undefined || newest === -1) return [];
  const results = ask.entries.slice(newest + 1).flatMap((entry) => (entry.by === "tool" ? entry.texts : []));
  const agents = results.map((text) => toAgent(asObject(parseJson(text)))).filter(Boolean);
  return agents.map((agent) => toCalling(wait, { targets: [agent], timeout_ms: LONGEST_WAIT_MS }));
}

/** Newer versions know a sub-agent by the path of its task. */
function toAgent({ agent_id: id, task_name: task }: Json): string {
  return asText(id) || asText(task);
}

const LONGEST_WAIT_MS = 600_000;

/** In the foreground wherever there is a choice: the script goes on when the sub-agent is done. */
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
