import {
  fromToolServerName,
  commonToolName,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
} from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { BUILTIN_TOOLS } from "../../tools/index.ts";
import { permissionResolved, questionResolved, toolResolved } from "./resolutions.ts";
import { toolServerRule, isRunByApplication } from "./tool-requests.ts";
import type { Pending } from "../fold/turn-fold.ts";

const EDITING = new Set(["write", "edit", "patch", "delete"]);

/**
 * The answers of the session's policy to a request; none where a client has to answer. With `bridges`, the tool server
 * offers built-in tools in place of the agent's own. Pure.
 */
export function policyAnswer(
  spec: SessionSpec,
  pending: Pending,
  { bridges = false }: { bridges?: boolean | undefined } = {},
): EventDraft[] {
  if (pending.kind === "permission") {
    const rule = bridges && isReplaced(spec, pending) ? "deny" : ruleFor(spec, pending);
    if (rule === "deny") return [toDisabledEvent(pending)];
    const by = approver(spec, pending, rule);
    if (by !== undefined) return [permissionResolved(pending, "approved", { reply: "once", by })];
  }
  return spec.unattended === true && !isApplicationTool(spec, pending) ? toRefusalEvents(pending) : [];
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
  // A rule answers only an agent's request, which names the kind of its call. A script's own request has no kind: a
  // client answers it.
  if (rule !== undefined)
    return rule === "allow" && kindOf(pending) !== undefined ? "policy:always_allow" : undefined;
  if (permissionMode === "bypass") return "policy:bypass";
  if (permissionMode === "acceptEdits" && isEdit(pending)) return "policy:acceptEdits";
  return undefined;
}

function ruleFor({ tools }: SessionSpec, pending: Pending): ToolRule | undefined {
  const name = fromToolServerName(pending.prompt);
  if (name === undefined) return ruleOf(tools, commonToolName(pending.prompt, kindOf(pending)));
  // Allowed by default: the application can still refuse when it runs its own tool.
  return toolServerRule(tools, name) ?? "allow";
}

/** Whether the agent asks for its own form of a built-in tool that the application runs. */
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

function toDisabledEvent(pending: Pending): EventDraft {
  const message = `The tool "${commonToolName(pending.prompt, kindOf(pending))}" is switched off in this session.`;
  return permissionResolved(pending, "denied", { reply: "reject", by: "policy:disabled", message });
}

/** The refusal of an unattended session: an error for all readers, then the answer to the request. */
function toRefusalEvents(pending: Pending): EventDraft[] {
  const message = toRefusalMessage(pending);
  const error: EventDraft = { type: "error", source: "daemon", data: { code: "permission_denied", message } };
  return [error, toRefusedAnswer(pending, message)];
}

function toRefusedAnswer(pending: Pending, message: string): EventDraft {
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

function toRefusalMessage({ kind, prompt }: Pending): string {
  if (kind === "tool")
    return `"${prompt}" was not run: an unattended session runs only the tools that tools.custom or tools.client names`;
  const help = kind === "permission" ? "; choose a permission mode that allows it" : "";
  return `"${prompt}" was refused: nobody answers in an unattended session${help}`;
}
