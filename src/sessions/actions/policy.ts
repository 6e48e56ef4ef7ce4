import {
  fromToolServerName,
  commonToolName,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
} from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-rule.ts";
import { BUILTIN_TOOLS } from "../../tools/index.ts";
import { permissionResolved, questionResolved, toolResolved } from "./resolutions.ts";
import { toolServerRule, isRunByApplication } from "./tool-requests.ts";
import type { Pending } from "../fold/turn-fold.ts";

const EDITING = new Set(["write", "edit", "patch", "delete"]);

/** The answers of the session's policy to a request; none where a client has to answer. Pure. */
export function policyAnswer(
  spec: SessionSpec,
  pending: Pending,
  { bridges = false }: { bridges?: boolean | undefined } = {},
): EventDraft[] {
  if (pending.kind === "permission") {
    const rule = bridges && isReplaced(spec, pending) ? "deny" : ruleFor(spec, pending);
    if (rule === "deny") return [disabled(pending)];
    const by = approver(spec, pending, rule);
    if (by !== undefined) return [permissionResolved(pending, "approved", { reply: "once", by })];
  }
  return spec.unattended === true && !isApplicationTool(spec, pending) ? refused(pending) : [];
}

/** Whether the application runs the tool, by the session's settings. It does so for unattended sessions too. */
function isApplicationTool({ tools }: SessionSpec, { kind, prompt }: Pending): boolean {
  if (kind !== "tool") return false;
  const isNamed = tools?.custom?.some(({ name }) => name === prompt) ?? false;
  return isNamed || (tools?.client?.includes(commonToolName(prompt)) ?? false);
}

function approver(
  { permissionMode }: SessionSpec,
  pending: Pending,
  rule: ToolRule | undefined,
): string | undefined {
  // Agents ask before every call, and name its kind. A script's request has no kind, and a rule does not answer it.
  if (rule !== undefined)
    return rule === "allow" && kindOf(pending) !== undefined ? "policy:always_allow" : undefined;
  if (permissionMode === "bypass") return "policy:bypass";
  if (permissionMode === "acceptEdits" && isEdit(pending)) return "policy:acceptEdits";
  return undefined;
}

function ruleFor({ tools }: SessionSpec, pending: Pending): ToolRule | undefined {
  const name = fromToolServerName(pending.prompt);
  if (name === undefined) return ruleOf(tools, commonToolName(pending.prompt, kindOf(pending)));
  // The application decides by running its own tool, or not.
  return toolServerRule(tools, name) ?? "allow";
}

/** Whether the tool server replaces this tool of the agent's own. */
function isReplaced({ tools }: SessionSpec, pending: Pending): boolean {
  if (fromToolServerName(pending.prompt) !== undefined) return false;
  const name = commonToolName(pending.prompt, kindOf(pending));
  return BUILTIN_TOOLS.some((tool) => tool.name === name) && isRunByApplication(tools, name);
}

function kindOf({ metadata }: Pending): unknown {
  return (metadata as { kind?: unknown } | undefined)?.kind;
}

function isEdit(pending: Pending): boolean {
  const kind = kindOf(pending);
  return kind === "edit" || (kind === undefined && EDITING.has(pending.prompt));
}

function disabled(pending: Pending): EventDraft {
  const message = `The tool "${commonToolName(pending.prompt, kindOf(pending))}" is switched off in this session.`;
  return permissionResolved(pending, "denied", { reply: "reject", by: "policy:disabled", message });
}

/** The refusal of an unattended session, as an error for every reader. */
function refused(pending: Pending): EventDraft[] {
  const message = toRefusal(pending);
  const error: EventDraft = { type: "error", source: "daemon", data: { code: "permission_denied", message } };
  return [error, toRefused(pending, message)];
}

function toRefused(pending: Pending, message: string): EventDraft {
  const by = "policy:unattended";
  if (pending.kind === "permission")
    return permissionResolved(pending, "denied", { reply: "reject", by, message });
  if (pending.kind === "question") return questionResolved(pending, { status: "rejected" });
  const resolved = toolResolved(pending, {
    status: "failed",
    content: [{ type: "text", text: message }],
    by,
  });
  return { ...resolved, parent_id: pending.parentId };
}

function toRefusal({ kind, prompt }: Pending): string {
  if (kind === "tool")
    return `"${prompt}" was not run: nobody runs tools in an unattended session but those that tools.custom names`;
  const help = kind === "permission" ? "; choose a permission mode that allows it" : "";
  return `"${prompt}" was refused: nobody answers in an unattended session${help}`;
}
