import { own } from "../../contract/ownKeys.ts";
import { parseOthersJson } from "../../contract/index.ts";
import type { Subagent } from "./state.ts";
import { isRecord } from "./payload.ts";
import type { Teller } from "./teller.ts";

/** How an event is attributed: to the sub-agent that stands behind the item of its call, which is told of first. */
export function attribute(teller: Teller, parent: string | undefined): { subagentRunId?: string } {
  if (parent === undefined) return {};
  return { subagentRunId: ensureSubagent(teller, parent) };
}

export function ownerOf({ owner }: { owner?: string }): { subagentRunId?: string } {
  return owner === undefined ? {} : { subagentRunId: owner };
}

/** The sub-agent of a call that came back is done, and everything that it began before that. */
export function endSubagent(
  teller: Teller,
  itemId: string,
  outcome: { failed: boolean; message: string },
): void {
  const known = own(teller.state.run?.subagents ?? {}, itemId);
  if (!known?.isOpen) return;
  if (outcome.failed) {
    teller.say("SUBAGENT_ERROR", { subagentRunId: known.id, message: outcome.message });
  } else {
    teller.say("SUBAGENT_FINISHED", { subagentRunId: known.id, outcome: { type: "success" } });
  }
  close(teller, itemId, known);
}

/** A run that ends leaves nobody behind; who is not done goes on in the next one. */
export function suspendSubagents(teller: Teller, interruptIds: readonly string[]): void {
  const open = Object.entries(teller.state.run?.subagents ?? {}).filter(([, { isOpen }]) => isOpen);
  for (const [itemId, known] of open.toReversed()) {
    const outcome =
      interruptIds.length === 0
        ? { type: "success" }
        : { type: "suspended", interruptIds: [...interruptIds] };
    teller.say("SUBAGENT_FINISHED", { subagentRunId: known.id, outcome });
    close(teller, itemId, known);
  }
}

function ensureSubagent(teller: Teller, itemId: string): string {
  teller.begin();
  const known = own(teller.state.run?.subagents ?? {}, itemId);
  if (known?.isOpen) return known.id;
  const times = (known?.times ?? 0) + 1;
  // Who goes on after its call has come back does so as another: an id is not used twice in a run.
  const id = times === 1 ? itemId : `${itemId}.${times}`;
  const [callId, call] = Object.entries(teller.state.calls).find(([, { itemId: at }]) => at === itemId) ?? [];
  const parent = call?.parent === undefined ? undefined : ensureSubagent(teller, call.parent);
  teller.say("SUBAGENT_STARTED", {
    subagentRunId: id,
    ...describe(call?.name, call?.arguments),
    ...(parent === undefined ? {} : { parentSubagentRunId: parent }),
    ...(callId === undefined ? {} : { parentToolCallId: callId }),
  });
  teller.changeRun({
    subagents: { ...teller.state.run?.subagents, [itemId]: { id, isOpen: true, times } },
  });
  return id;
}

function close(teller: Teller, itemId: string, known: Subagent): void {
  teller.changeRun({ subagents: { ...teller.state.run?.subagents, [itemId]: { ...known, isOpen: false } } });
}

/** What the call says of whom it calls, in the words of the CLIs that have such a call. */
function describe(
  tool: string | undefined,
  text: string | undefined,
): { name: string; description?: string } {
  const input = parse(text ?? "");
  const name = [input["subagent_type"], input["name"], input["agent"]].find(isText) ?? tool ?? "agent";
  const description = input["description"];
  return { name, ...(isText(description) ? { description } : {}) };
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = parseOthersJson(text);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
