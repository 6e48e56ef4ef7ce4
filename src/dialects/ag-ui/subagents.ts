import { own, parseJsonOr } from "../../contract/index.ts";
import { toFields } from "../shared/text.ts";
import type { AgUiProjection } from "./projection.ts";
import type { Call, Subagent } from "./state.ts";

/** Attributes an event to the sub-agent of a call's item; starts the sub-agent on the wire if needed. */
export function attribute(
  projection: AgUiProjection,
  parent: string | undefined,
): { subagentRunId?: string } {
  if (parent === undefined) return {};
  return { subagentRunId: ensureSubagent(projection, parent) };
}

export function toSubagentFields({ subagent }: { subagent?: string }): { subagentRunId?: string } {
  return subagent === undefined ? {} : { subagentRunId: subagent };
}

/** A call's result ends its sub-agent. */
export function endSubagent(
  projection: AgUiProjection,
  itemId: string,
  outcome: { failed: boolean; message: string },
): void {
  const known = own(projection.state.run?.subagents ?? {}, itemId);
  if (!known?.isOpen) return;
  if (outcome.failed) {
    projection.emit("SUBAGENT_ERROR", { subagentRunId: known.id, message: outcome.message });
  } else {
    projection.emit("SUBAGENT_FINISHED", { subagentRunId: known.id, outcome: { type: "success" } });
  }
  close(projection, itemId, known);
}

/** The end of a run ends its sub-agents on the wire; an unfinished one starts again in the next run. */
export function suspendSubagents(projection: AgUiProjection, interruptIds: readonly string[]): void {
  const open = Object.entries(projection.state.run?.subagents ?? {}).filter(([, { isOpen }]) => isOpen);
  for (const [itemId, known] of open.toReversed()) {
    const outcome =
      interruptIds.length === 0
        ? { type: "success" as const }
        : { type: "suspended" as const, interruptIds: [...interruptIds] };
    projection.emit("SUBAGENT_FINISHED", { subagentRunId: known.id, outcome });
    close(projection, itemId, known);
  }
}

function ensureSubagent(projection: AgUiProjection, itemId: string): string {
  projection.begin();
  const known = own(projection.state.run?.subagents ?? {}, itemId);
  if (known?.isOpen) return known.id;
  const times = (known?.times ?? 0) + 1;
  // A sub-agent that continues after its result needs a new id: a run uses each id once.
  const id = times === 1 ? itemId : `${itemId}.${times}`;
  const [callId, call] =
    Object.entries(projection.state.calls).find(([, { itemId: at }]) => at === itemId) ?? [];
  const parent = call?.parent === undefined ? undefined : ensureSubagent(projection, call.parent);
  projection.emit("SUBAGENT_STARTED", {
    subagentRunId: id,
    name: call?.name ?? "agent",
    ...(call?.described ?? describeSubagent(call?.arguments ?? "")),
    ...(parent === undefined ? {} : { parentSubagentRunId: parent }),
    ...(callId === undefined ? {} : { parentToolCallId: callId }),
  });
  projection.changeRun({
    subagents: { ...projection.state.run?.subagents, [itemId]: { id, isOpen: true, times } },
  });
  return id;
}

function close(projection: AgUiProjection, itemId: string, known: Subagent): void {
  projection.changeRun({
    subagents: { ...projection.state.run?.subagents, [itemId]: { ...known, isOpen: false } },
  });
}

/** The sub-agent's name and description from the arguments of its call. */
export function describeSubagent(text: string): NonNullable<Call["described"]> {
  const input = toFields(parseJsonOr(text, {}));
  const name = [input["subagent_type"], input["name"], input["agent"]].find(isText);
  const { description } = input;
  return { ...(name === undefined ? {} : { name }), ...(isText(description) ? { description } : {}) };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
