import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { EventData, EventDraft, SessionSpec } from "../contract/index.ts";
import type { ToolRun } from "../tools/index.ts";
import type { SessionFold } from "./fold.ts";
import type { Pending, TurnFold } from "./turnFold.ts";

const REQUEST_PREFIX = "treq_mcp_";

export function hasCustomTools({ tools }: SessionSpec): boolean {
  return (tools?.custom?.length ?? 0) > 0;
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
