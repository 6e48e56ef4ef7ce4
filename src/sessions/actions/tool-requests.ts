import {
  parseJsonOr,
  toToolServerName,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
  type ToolSettings,
} from "../../contract/index.ts";
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Harness } from "../../harness/port.ts";
import { setOwn } from "../../contract/own-keys.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { BUILTIN_TOOLS, type CustomTool, type ToolRun } from "../../tools/index.ts";
import type { OpenCall, Pending, TurnFold } from "../fold/turn-fold.ts";
import { permissionResolved, toolResolved } from "./resolutions.ts";

const REQUEST_PREFIX = "treq_mcp_";
const PERMISSION_PREFIX = "perm_mcp_";

/** The tools behind the tool server: the application's own, and the agent's tools that the application runs. Pure. */
export function offeredTools({ tools }: SessionSpec, harness: Harness): readonly CustomTool[] {
  const custom = (tools?.custom ?? []).filter(({ name }) => toolServerRule(tools, name) !== "deny");
  if (harness.bridgesBuiltins !== true) return custom;
  const isOffered = (name: string): boolean =>
    isRunByApplication(tools, name) && toolServerRule(tools, name) !== "deny";
  return [...custom, ...BUILTIN_TOOLS.filter(({ name }) => isOffered(name))];
}

/** Whether this is a built-in tool of the agent that the application runs instead. */
export function isRunByApplication(tools: ToolSettings | undefined, name: string): boolean {
  const isListed = tools?.client?.includes(name) ?? false;
  return isListed && !(tools?.custom?.some((tool) => tool.name === name) ?? false);
}

/**
 * The session's rule for a tool of the tool server. A rule for an application's own tool names it, plainly or as the
 * agent calls it. The rule `*` holds only for the agent's tools. Pure.
 */
export function toolServerRule(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  if (isRunByApplication(tools, name)) return ruleOf(tools, name);
  const rules = tools?.rules ?? {};
  return Object.hasOwn(rules, name) ? rules[name] : ruleOf(tools, toToolServerName(name));
}

/** A repeated call of the same run has the same id. */
export function toRequestId({ session, createdAt, process }: ToolRun, callId: string): string {
  const hash = createHash("sha256").update(JSON.stringify([session, createdAt, process, callId]));
  return `${REQUEST_PREFIX}${hash.digest("hex").slice(0, 24)}`;
}

/** The permission that a tool request needs first. */
export function toPermissionId(requestId: string): string {
  return `${PERMISSION_PREFIX}${requestId.slice(REQUEST_PREFIX.length)}`;
}

/** Whether the tool server takes the answer, and not the harness. */
export function isToolServerRequest(id: string): boolean {
  return id.startsWith(REQUEST_PREFIX) || id.startsWith(PERMISSION_PREFIX);
}

/** The agent's open call that a request belongs to: same name, equal arguments, no request yet. Pure. */
export function findOpenCall(turn: TurnFold, name: string, input: unknown): string | undefined {
  const found = Object.entries(turn.calls).find(
    ([, { bridged }]) => bridged?.name === name && isSameInput(bridged.arguments, input),
  );
  return found?.[0];
}

/** Joins a call with its request where the request arrived first. */
export function joinRequest(
  turn: TurnFold,
  callId: string,
  call: Required<Pick<OpenCall, "bridged">> & OpenCall,
): void {
  const { name, arguments: text } = call.bridged;
  const early = turn.pending.find(
    (pending) =>
      isToolServerRequest(pending.id) &&
      pending.callId === undefined &&
      pending.prompt === name &&
      isSameInput(text, pending.input),
  );
  if (!early) setOwn(turn.calls, callId, call);
  else early.callId = callId;
}

function isSameInput(text: string, input: unknown): boolean {
  return isDeepStrictEqual(parseJsonOr(text === "" ? "{}" : text, undefined), input ?? {});
}

/** The tool requests that an interrupt cancels, even if the agent reports no cancellation. Pure. */
export function withdrawnRequests({ turn }: { readonly turn: TurnFold | null }): EventDraft[] {
  if (!turn?.interrupt) return [];
  return turn.pending
    .filter(({ id }) => isToolServerRequest(id))
    .map((pending) => toCancelled(pending, "daemon"));
}

export function toCancelled(pending: Pending, by: "agent" | "daemon"): EventDraft {
  const resolved =
    pending.kind === "permission"
      ? permissionResolved(pending, "denied", { by, reason: "cancelled" })
      : toolResolved(pending, { status: "cancelled", content: [], by });
  return { ...resolved, source: by, parent_id: pending.parentId };
}
