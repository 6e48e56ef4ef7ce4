import type { NamedTool } from "../acp/dialect.ts";
import type { Hand } from "../acp/hand.ts";
import { childAnchor, endSpeech } from "../acp/speech.ts";
import type { Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";

const SPAWN = "spawn_subagent";

/** A sub-agent is a session of its own; what it does is told under the call that started it. */
export function hearSubagent(hand: Hand, update: Params): void {
  const { sessionUpdate: type, child_session_id: child, description } = update;
  if (typeof child !== "string") return;
  if (type === "subagent_finished") return endSpeech(hand, child);
  const parent = findSpawn(hand, typeof description === "string" ? description : "");
  if (parent !== undefined) hand.anchor(childAnchor(child), { item: parent, name: SPAWN });
}

/** Notes the items of calls that start sub-agents, since those may outlive their calls. */
export function noteSpawn(hand: Hand, call: string, { name, input }: NamedTool): void {
  if (name !== SPAWN) return;
  const item = own(hand.scribe.transcript.calls, call)?.item;
  const description = (input as { description?: unknown } | undefined)?.description;
  if (item === undefined) return;
  hand.note({ aside: { ...hand.state.aside, [`spawn:${item}`]: String(description ?? "") } });
}

/** The oldest call of that description, else the oldest at all: nothing else ties the two together. */
function findSpawn(hand: Hand, description: string): string | undefined {
  const waiting = Object.entries(hand.state.aside).filter(([key]) => key.startsWith("spawn:"));
  const found = waiting.find(([, said]) => said === description) ?? waiting[0];
  if (!found) return undefined;
  hand.note({ aside: without(hand.state.aside, found[0]) });
  return found[0].slice("spawn:".length);
}
