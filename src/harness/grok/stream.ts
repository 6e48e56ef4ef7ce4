import type { Hand } from "../acp/hand.ts";
import { tearSpeech } from "../acp/speech.ts";
import { placeOf } from "../acp/updates.ts";
import { isRecord, type RpcMessage } from "../rpc.ts";
import { own } from "../transcript.ts";

/** A text that is open when another stream begins was cut, and is now said again from its beginning. */
export function watchStream(hand: Hand, message: RpcMessage): void {
  if (message.kind !== "notification" || message.method !== "session/update") return;
  const { _meta: meta, update } = message.params;
  const started = isRecord(meta) ? meta["streamStartMs"] : undefined;
  if (typeof started !== "number" || !isRecord(update) || !isChunk(update["sessionUpdate"])) return;
  const place = placeOf(hand, message.params);
  const slot = `stream:${place}`;
  const stream = String(started);
  if (own(hand.state.aside, slot) === stream) return;
  tearSpeech(hand, place);
  hand.note({ aside: { ...hand.state.aside, [slot]: stream } });
}

function isChunk(type: unknown): boolean {
  return type === "agent_message_chunk" || type === "agent_thought_chunk";
}
