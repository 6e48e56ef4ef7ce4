import { parseOthersJson } from "../contract/index.ts";
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import {
  toBridgedName,
  type EventData,
  type EventDraft,
  type SessionSpec,
  type ToolRule,
  type ToolSettings,
} from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { ruleOf } from "../harness/toolRule.ts";
import { BUILTIN_TOOLS, type CustomTool, type ToolRun } from "../tools/index.ts";
import type { SessionFold } from "./fold.ts";
import type { Pending, TurnFold } from "./turnFold.ts";

const REQUEST_PREFIX = "treq_mcp_";
const PERMISSION_PREFIX = "perm_mcp_";

/** What an agent calls through the bridge: its application's tools, and those of its own that the application runs. Pure. */
export function bridgedTools({ tools }: SessionSpec, harness: Harness): readonly CustomTool[] {
  const custom = (tools?.custom ?? []).filter(({ name }) => bridgedRule(tools, name) !== "deny");
  if (harness.bridgesBuiltins !== true) return custom;
  const isOffered = (name: string): boolean => isBuiltin(tools, name) && bridgedRule(tools, name) !== "deny";
  return [...custom, ...BUILTIN_TOOLS.filter(({ name }) => isOffered(name))];
}

/** Whether a tool of the bridge is one of the agent's own that the application runs in its place. */
export function isBuiltin(tools: ToolSettings | undefined, name: string): boolean {
  const isClients = tools?.client?.includes(name) ?? false;
  return isClients && !(tools?.custom?.some((tool) => tool.name === name) ?? false);
}

/**
 * What the session says of a tool of the bridge. An application's own tool has a rule only where it is named, as it is or as
 * the agent calls it: `*` is about the agent's tools. Pure.
 */
export function bridgedRule(tools: ToolSettings | undefined, name: string): ToolRule | undefined {
  if (isBuiltin(tools, name)) return ruleOf(tools, name);
  const rules = tools?.rules ?? {};
  return Object.hasOwn(rules, name) ? rules[name] : ruleOf(tools, toBridgedName(name));
}

/** The same call of the same run is the same request, however often it is made. */
export function bridgedRequestId({ session, createdAt, process }: ToolRun, callId: string): string {
  const hash = createHash("sha256").update(JSON.stringify([session, createdAt, process, callId]));
  return `${REQUEST_PREFIX}${hash.digest("hex").slice(0, 24)}`;
}

/** The permission that a request of the bridge needs first. */
export function toPermissionId(requestId: string): string {
  return `${PERMISSION_PREFIX}${requestId.slice(REQUEST_PREFIX.length)}`;
}

/** Whether an answer comes back to the agent through the bridge, and not through its harness. */
export function isBridgedRequest(id: string): boolean {
  return id.startsWith(REQUEST_PREFIX) || id.startsWith(PERMISSION_PREFIX);
}

/** The CLI's own call that a request comes from: open, of this name, with equal arguments, and no other request's. Pure. */
export function findBridgedCall(turn: TurnFold, name: string, input: unknown): string | undefined {
  const found = Object.entries(turn.calls).find(
    ([, { bridged }]) => bridged?.name === name && isSameInput(bridged.arguments, input),
  );
  return found?.[0];
}

export function isSameInput(text: string, input: unknown): boolean {
  try {
    return isDeepStrictEqual(parseOthersJson(text === "" ? "{}" : text), input ?? {});
  } catch {
    return false;
  }
}

/** An interrupt ends what the application was asked for, whether or not the agent says so. Pure. */
export function withdrawnRequests({ turn }: SessionFold): EventDraft[] {
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
