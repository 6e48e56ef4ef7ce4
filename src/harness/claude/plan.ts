import type { PlanEntry, SessionSpec } from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-rule.ts";
import { type Fields, toFields, toList, toText } from "../fields.ts";
import { own, without } from "../transcript.ts";

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

function toPlan(entries: readonly Fields[], words: "content" | "subject"): Plan {
  return Object.fromEntries(
    entries.map((entry, index) => {
      const id = words === "subject" ? toText(entry["id"]) : "";
      return [id || String(index + 1), toEntry(toText(entry[words]), entry["status"])];
    }),
  );
}

function toEntry(content: string, status: unknown): PlanEntry {
  const isKnown = status === "in_progress" || status === "completed";
  return { content, status: isKnown ? status : "pending", priority: "medium" };
}

/** The tool by which Claude leaves plan mode. Its approval is a question: the plan, and three options. */
export const EXIT_PLAN_MODE = "ExitPlanMode";

const APPROVE = "approve";
const APPROVE_WITH_EDITS = "approve and accept edits";
const REJECT = "reject";

const REFUSED = "The user rejected the plan. Stay in plan mode, and ask what should change.";
export const PLANS_ARE_OFF = `The tool "${EXIT_PLAN_MODE}" is switched off in this session.`;

/** The verdict on plans, where the session's rules or its permission mode decide without a person. */
export function planVerdict({ tools, permissionMode }: SessionSpec): { plans?: "allow" | "deny" } {
  const rule = ruleOf(tools, EXIT_PLAN_MODE) ?? (permissionMode === "bypass" ? "allow" : "ask");
  return rule === "ask" ? {} : { plans: rule };
}

export function toPlanPrompt(plan: string): { prompt: string; options: string[] } {
  return { prompt: plan === "" ? "Approve the plan?" : plan, options: [APPROVE, APPROVE_WITH_EDITS, REJECT] };
}

/** The response for an answer: one of the options, or a text that refuses the plan. No answer refuses it too. */
export function answerPlan(input: Fields, answers: readonly (readonly string[])[] | undefined): unknown {
  const answer = (answers ?? []).flat().join("\n").trim();
  switch (answer.toLowerCase()) {
    case APPROVE:
      return approvePlan(input);
    case APPROVE_WITH_EDITS:
      return {
        ...approvePlan(input),
        updatedPermissions: [{ type: "setMode", mode: "acceptEdits", destination: "session" }],
      };
    case REJECT:
    case "":
      return refusePlan(REFUSED);
    default:
      return refusePlan(answer);
  }
}

/** The inverse of `answerPlan`, for reading recordings. */
export function fromPlanAnswer(response: Fields): readonly (readonly string[])[] | undefined {
  if (response["behavior"] === "allow")
    return [[response["updatedPermissions"] === undefined ? APPROVE : APPROVE_WITH_EDITS]];
  const message = toText(response["message"]);
  return [[message === "" || message === REFUSED ? REJECT : message]];
}

export function approvePlan(input: Fields): object {
  return { behavior: "allow", updatedInput: input };
}

export function refusePlan(message: string): object {
  return { behavior: "deny", message };
}
