import type { EventDraft, SessionSpec } from "../contract/index.ts";
import { commonToolName, ruleOf } from "../harness/toolRule.ts";
import { bridgedToolName } from "./bridged.ts";
import type { Pending } from "./fold.ts";

const EDITING = new Set(["write", "edit", "patch", "delete"]);

/** What is answered when nobody needs to be asked, or nobody is there; nothing where somebody decides. Pure. */
export function policyAnswer(spec: SessionSpec, pending: Pending): EventDraft[] {
  if (pending.kind === "permission") {
    const by = approver(spec, pending);
    if (by !== undefined) return [resolved(pending, { status: "approved", reply: "once", by })];
  }
  return spec.unattended === true ? refused(pending) : [];
}

function approver({ permissionMode, tools }: SessionSpec, pending: Pending): string | undefined {
  const kind = (pending.metadata as { kind?: unknown } | undefined)?.kind;
  const rule = ruleOf(tools, commonToolName(pending.prompt, kind)) ?? ruleOfBridge(pending);
  // An agent that says of what kind its asks are asks by habit; a script asks because it means to.
  if (rule !== undefined) return rule === "allow" && kind !== undefined ? "policy:always_allow" : undefined;
  if (permissionMode === "bypass") return "policy:bypass";
  if (permissionMode === "acceptEdits" && isEdit(pending)) return "policy:acceptEdits";
  return undefined;
}

/** Whoever runs a tool decides by running it. */
function ruleOfBridge({ prompt }: Pending): "allow" | undefined {
  return bridgedToolName(prompt) === undefined ? undefined : "allow";
}

function isEdit({ prompt, metadata }: Pending): boolean {
  const kind = (metadata as { kind?: unknown } | undefined)?.kind;
  return kind === "edit" || (kind === undefined && EDITING.has(prompt));
}

/** An unattended session fails closed, and says so to every reader. */
function refused(pending: Pending): EventDraft[] {
  const message = `"${pending.prompt}" was refused: nobody answers in an unattended session; choose a permission mode that allows it`;
  const said: EventDraft = { type: "error", source: "daemon", data: { code: "permission_denied", message } };
  if (pending.kind === "permission") {
    return [said, resolved(pending, { status: "denied", reply: "reject", by: "policy:unattended", message })];
  }
  const { id, prompt, options = [] } = pending;
  const data = { question_id: id, prompt, options, status: "rejected" as const };
  return [said, { type: "question.resolved", source: "daemon", data }];
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
