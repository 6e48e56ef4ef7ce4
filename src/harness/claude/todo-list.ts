import type { PlanEntry } from "../../contract/index.ts";
import { type Fields, toFields, toList, toText } from "../fields.ts";
import { own, without } from "../transcript.ts";

/** The tools of Claude's todo list, which is the plan of a turn. */
const PLAN_TOOLS = new Set(["TodoWrite", "TaskCreate", "TaskUpdate", "TaskList"]);

export function isPlanTool(name: string): boolean {
  return PLAN_TOOLS.has(name);
}

export type Plan = Readonly<Record<string, PlanEntry>>;

/** The plan after a tool call; undefined where the call does not change it. */
export function changePlan(
  plan: Plan,
  tool: { name: string; input: unknown; result: unknown },
): Plan | undefined {
  const input = toFields(tool.input);
  const result = toFields(tool.result);
  switch (tool.name) {
    case "TodoWrite":
      return toPlan(toList(result["newTodos"] ?? input["todos"]), "content");
    case "TaskList":
      return Array.isArray(result["tasks"]) ? toPlan(toList(result["tasks"]), "subject") : undefined;
    case "TaskCreate": {
      const task = toFields(result["task"]);
      const id = toText(task["id"]);
      if (id === "") return undefined;
      return { ...plan, [id]: toEntry(toText(task["subject"] ?? input["subject"]), undefined) };
    }
    case "TaskUpdate":
      return updateTask(plan, input);
    default:
      return undefined;
  }
}

function updateTask(plan: Plan, input: Fields): Plan | undefined {
  const id = toText(input["taskId"]);
  if (id === "") return undefined;
  if (input["status"] === "deleted") return without(plan, id);
  const before = own(plan, id) ?? toEntry(`Task ${id}`, undefined);
  const content = toText(input["subject"]) || before.content;
  return { ...plan, [id]: toEntry(content, input["status"] ?? before.status) };
}

function toPlan(entries: readonly Fields[], textField: "content" | "subject"): Plan {
  return Object.fromEntries(
    entries.map((entry, index) => {
      const id = textField === "subject" ? toText(entry["id"]) : "";
      return [id || String(index + 1), toEntry(toText(entry[textField]), entry["status"])];
    }),
  );
}

function toEntry(content: string, status: unknown): PlanEntry {
  const isKnown = status === "in_progress" || status === "completed";
  return { content, status: isKnown ? status : "pending", priority: "medium" };
}
