import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { EventData, EventDraft, SessionSpec, ToolSettings } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { ruleOf } from "../harness/toolRule.ts";
import { BUILTIN_TOOLS, type CustomTool, type ToolRun } from "../tools/index.ts";
import type { SessionFold } from "./fold.ts";
import type { Pending, TurnFold } from "./turnFold.ts";

const REQUEST_PREFIX = "treq_mcp_";

/** What an agent calls through the bridge: its application's tools, and those of its own that the application runs. Pure. */
export function bridgedTools({ tools }: SessionSpec, harness: Harness): readonly CustomTool[] {
  const custom = tools?.custom ?? [];
  if (harness.bridgesBuiltins !== true) return custom;
  const isOffered = (name: string): boolean => isBuiltin(tools, name) && ruleOf(tools, name) !== "deny";
  return [...custom, ...BUILTIN_TOOLS.filter(({ name }) => isOffered(name))];
}

/** Whether a tool of the bridge is one of the agent's own that the application runs in its place. */
export function isBuiltin(tools: ToolSettings | undefined, name: string): boolean {
  const isClients = tools?.client?.includes(name) ?? false;
  return isClients && !(tools?.custom?.some((tool) => tool.name === name) ?? false);
}

/** The same call of the same run is the same request, however often it is made. */
export function bridgedRequestId({ session, createdAt, process }: ToolRun, callId: string): string {
  const hash = createHash("sha256").update(JSON.stringify([session, createdAt, process, callId]));
  return `${REQUEST_PREFIX}${hash.digest("hex").slice(0, 24)}`;
}

/** Whether an answer comes back to the agent through the bridge, and not through its harness. */
export function isBridgedRequest(id: string): boolean {
  return id.startsWith(REQUEST_PREFIX);
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
    return isDeepStrictEqual(JSON.parse(text === "" ? "{}" : text), input ?? {});
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

export function toCancelled({ id, prompt, parentId }: Pending, by: "agent" | "daemon"): EventDraft {
  const data: EventData<"tool.resolved"> = {
    request_id: id,
    name: prompt,
    status: "cancelled",
    content: [],
    by,
  };
  return { type: "tool.resolved", source: by, parent_id: parentId, data };
}
