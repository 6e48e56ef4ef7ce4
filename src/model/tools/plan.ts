import type { Step } from "../../scripted-agent/step.ts";
import { asObject } from "../json.ts";
import { callNative, type Calling, type Native, type Scene } from "./native.ts";

type Plan = Extract<Step, { do: "plan" }>;

/** Most clients have one tool for the whole plan. New versions of Claude Code create or update one task per call. */
export function callPlanTool(step: Plan, scene: Scene): readonly Calling[] | undefined {
  const whole = callNative(PLANS, step, scene);
  if (whole !== undefined) return [whole];
  return scene.ask.tools.some(({ name }) => name === "TaskCreate") ? toTasks(step, scene) : undefined;
}

const PLANS: readonly Native<Plan>[] = [
  {
    tool: "TodoWrite",
    input: ({ entries }) => ({
      todos: entries.map(({ content, status }) => ({ content, status, activeForm: content })),
    }),
  },
  { tool: "todowrite", input: ({ entries }) => ({ todos: entries.map(numbered) }) },
  {
    tool: "update_plan",
    input: ({ entries }) => ({ plan: entries.map(({ content, status }) => ({ step: content, status })) }),
  },
  {
    tool: "write_todos",
    input: ({ entries }) => ({
      todos: entries.map(({ content, status }) => ({ description: content, status })),
    }),
  },
  {
    tool: "todo_write",
    input: ({ entries }) => ({
      merge: false,
      todos: entries.map(({ content, status }, index) => ({ id: String(index + 1), content, status })),
    }),
  },
];

function numbered(entry: Plan["entries"][number], index: number) {
  return { id: String(index + 1), ...entry };
}

/** Claude Code numbers tasks from 1 in the order of their creation. */
function toTasks({ entries }: Plan, { ask }: Scene): Calling[] {
  const subjects = ask.entries
    .flatMap((entry) => (entry.by === "model" ? entry.calls : []))
    .filter(({ name }) => name === "TaskCreate")
    .map(({ input }) => asObject(input)["subject"]);
  return entries.flatMap(({ content, status }) => {
    const isNew = !subjects.includes(content);
    if (isNew) subjects.push(content);
    const taskId = String(subjects.indexOf(content) + 1);
    const create = { subject: content, description: content, activeForm: content };
    return [
      ...(isNew ? [{ name: "TaskCreate", input: create }] : []),
      // A new task is pending already.
      ...(isNew && status === "pending" ? [] : [{ name: "TaskUpdate", input: { taskId, status } }]),
    ];
  });
}
