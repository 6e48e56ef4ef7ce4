import type { Step } from "../harness/scripted/agent/step.ts";

/** Steps as a script again: the prompt of a sub-agent. */
export function toScript(steps: readonly Step[]): string {
  return `#script ${JSON.stringify(steps.flatMap((step) => toSource(step) ?? []))}`;
}

/** undefined for what means nothing to a model. */
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
