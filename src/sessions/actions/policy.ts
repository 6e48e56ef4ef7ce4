import {
  bridgedToolName,
  commonToolName,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
} from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-rule.ts";
import { BUILTIN_TOOLS } from "../../tools/index.ts";
import { bridgedRule, isBuiltin } from "./tool-requests.ts";
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
    if (by !== undefined) return [resolved(pending, { status: "approved", reply: "once", by })];
  }
  return spec.unattended === true && !isRun(spec, pending) ? refused(pending) : [];
}

/** Whether the session names the tool, so that its application runs it. That holds for unattended sessions too. */
function isRun({ tools }: SessionSpec, { kind, prompt }: Pending): boolean {
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
  const bridged = bridgedToolName(pending.prompt);
  if (bridged === undefined) return ruleOf(tools, commonToolName(pending.prompt, kindOf(pending)));
  // The application decides by running its own tool, or not.
  return bridgedRule(tools, bridged) ?? "allow";
}

/** Whether the tool server replaces this tool of the agent's own. */
function isReplaced({ tools }: SessionSpec, pending: Pending): boolean {
  if (bridgedToolName(pending.prompt) !== undefined) return false;
  const name = commonToolName(pending.prompt, kindOf(pending));
  return BUILTIN_TOOLS.some((tool) => tool.name === name) && isBuiltin(tools, name);
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
  return resolved(pending, { status: "denied", reply: "reject", by: "policy:disabled", message });
}

/** The refusal of an unattended session, as an error for every reader. */
function refused(pending: Pending): EventDraft[] {
  const message = toRefusal(pending);
  const said: EventDraft = { type: "error", source: "daemon", data: { code: "permission_denied", message } };
  if (pending.kind === "permission") {
    return [said, resolved(pending, { status: "denied", reply: "reject", by: "policy:unattended", message })];
  }
  const { id, prompt, options = [] } = pending;
  if (pending.kind === "tool") {
    const content = [{ type: "text" as const, text: message }];
    const data = {
      request_id: id,
      name: prompt,
      status: "failed" as const,
      content,
      by: "policy:unattended",
    };
    return [said, { type: "tool.resolved", source: "daemon", parent_id: pending.parentId, data }];
  }
  const data = { question_id: id, prompt, options, status: "rejected" as const };
  return [said, { type: "question.resolved", source: "daemon", data }];
}

function toRefusal({ kind, prompt }: Pending): string {
  if (kind === "tool")
    return `"${prompt}" was not run: nobody runs tools in an unattended session but those that tools.custom names`;
  const help = kind === "permission" ? "; choose a permission mode that allows it" : "";
  return `"${prompt}" was refused: nobody answers in an unattended session${help}`;
}

function resolved(
  { id, prompt, metadata }: Pending,
  { status, ...decision }: { status: "approved" | "denied"; reply: string; by: string; message?: string },
): EventDraft {
  const data = {
    permission_id: id,
    action: prompt,
    status,
    metadata: { ...(metadata as object | undefined), ...decision },
  };
  return { type: "permission.resolved", source: "daemon", data };
}
