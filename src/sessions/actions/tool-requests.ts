import {
  parseOthersJson,
  toBridgedName,
  type EventData,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
  type ToolSettings,
} from "../../contract/index.ts";
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Harness } from "../../harness/port.ts";
import { setOwn } from "../../contract/own-keys.ts";
import { ruleOf } from "../../contract/tool-rule.ts";
import { BUILTIN_TOOLS, type CustomTool, type ToolRun } from "../../tools/index.ts";
import type { OpenCall, Pending, TurnFold } from "../fold/turn-fold.ts";

const REQUEST_PREFIX = "treq_mcp_";
const PERMISSION_PREFIX = "perm_mcp_";

/** The tools behind the tool server: the application's own, and the agent's tools that the application runs. Pure. */
export function bridgedTools({ tools }: SessionSpec, harness: Harness): readonly CustomTool[] {
  const custom = (tools?.custom ?? []).filter(({ name }) => bridgedRule(tools, name) !== "deny");
  if (harness.bridgesBuiltins !== true) return custom;
  const isOffered = (name: string): boolean => isBuiltin(tools, name) && bridgedRule(tools, name) !== "deny";
  return [...custom, ...BUILTIN_TOOLS.filter(({ name }) => isOffered(name))];
}

/** Whether the application runs this tool in place of the agent. */
export function isBuiltin(tools: ToolSettings | undefined, name: string): boolean {
  const isClients = tools?.client?.includes(name) ?? false;
  return isClients && !(tools?.custom?.some((tool) => tool.name === name) ?? false);
}

/**
 * The session's rule for a tool of the tool server. An application's own tool has a rule only by its name, plain or as
 * the agent calls it: `*` means the agent's tools. Pure.
 */
export function bridgedRule(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  if (isBuiltin(tools, name)) return ruleOf(tools, name);
  const rules = tools?.rules ?? {};
  return Object.hasOwn(rules, name) ? rules[name] : ruleOf(tools, toBridgedName(name));
}

/** A repeated call of the same run has the same id. */
export function bridgedRequestId({ session, createdAt, process }: ToolRun, callId: string): string {
  const hash = createHash("sha256").update(JSON.stringify([session, createdAt, process, callId]));
  return `${REQUEST_PREFIX}${hash.digest("hex").slice(0, 24)}`;
}

/** The permission that a tool request needs first. */
export function toPermissionId(requestId: string): string {
  return `${PERMISSION_PREFIX}${requestId.slice(REQUEST_PREFIX.length)}`;
}

/** Whether the tool server takes the answer, and not the harness. */
export function isBridgedRequest(id: string): boolean {
  return id.startsWith(REQUEST_PREFIX) || id.startsWith(PERMISSION_PREFIX);
}

/** The open call of the agent that a request belongs to: same name, equal arguments, no other request. Pure. */
export function findBridgedCall(turn: TurnFold, name: string, input: unknown): string | undefined {
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
      isBridgedRequest(pending.id) &&
      pending.callId === undefined &&
      pending.prompt === name &&
      isSameInput(text, pending.input),
  );
  if (!early) setOwn(turn.calls, callId, call);
  else early.callId = callId;
}

function isSameInput(text: string, input: unknown): boolean {
  try {
    return isDeepStrictEqual(parseOthersJson(text === "" ? "{}" : text), input ?? {});
  } catch {
    return false;
  }
}

/** The tool requests that an interrupt cancels, also where the agent does not say so. Pure. */
export function withdrawnRequests({ turn }: { readonly turn: TurnFold | null }): EventDraft[] {
  if (!turn?.interrupt) return [];
  return turn.pending
    .filter(({ id }) => isBridgedRequest(id))
    .map((pending) => toCancelled(pending, "daemon"));
}

export function toCancelled(pending: Pending, by: "agent" | "daemon"): EventDraft {
  const { id, prompt, parentId, metadata } = pending;
  if (pending.kind === "permission") {
    const given = { ...(metadata as object | undefined), by, reason: "cancelled" };
    const data = { permission_id: id, action: prompt, status: "denied" as const, metadata: given };
    return { type: "permission.resolved", source: by, parent_id: parentId, data };
  }
  const data: EventData<"tool.resolved"> = {
    request_id: id,
    name: prompt,
    status: "cancelled",
    content: [],
    by,
  };
  return { type: "tool.resolved", source: by, parent_id: parentId, data };
}
