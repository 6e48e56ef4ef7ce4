import type { PlanEntry } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";

/** The plan that an agent writes down with a tool: the whole list, or nothing where it is none. */
export function readTodos(name: string, input: unknown): PlanEntry[] | undefined {
  if (!/todo/i.test(name) || !isRecord(input) || !Array.isArray(input["todos"])) return undefined;
  return toEntries(input["todos"]);
}

/** Plan entries of ACP, or of any tool that is like it. */
export function toEntries(list: readonly unknown[]): PlanEntry[] | undefined {
  const entries = list.filter(isRecord).flatMap((entry): PlanEntry[] => {
    const content = entry["content"] ?? entry["description"];
    if (typeof content !== "string") return [];
    return [{ content, status: toStatus(entry["status"]), priority: toPriority(entry["priority"]) }];
  });
  return entries.length === list.length ? entries : undefined;
}

function toStatus(status: unknown): PlanEntry["status"] {
  // An entry that was given up is one that nobody works on any more.
  if (status === "completed" || status === "cancelled") return "completed";
  return status === "in_progress" ? "in_progress" : "pending";
}

function toPriority(priority: unknown): PlanEntry["priority"] {
  return priority === "high" || priority === "low" ? priority : "medium";
}
