import { type Fields, isRecord } from "../fields.ts";
import type { Reading } from "./state.ts";
import { kindOf } from "./tools.ts";

/** The gate's question whether a tool may run. It names the tool and its arguments, not the call's id. */
export function readAsk(reading: Reading, value: Fields): string | undefined {
  const { scribe } = reading;
  const { calls } = reading.state;
  const { id, tool } = value;
  if (typeof id !== "string" || typeof tool !== "string") return "a malformed permission.asked";
  const input = isRecord(value["input"]) ? value["input"] : {};
  const text = JSON.stringify(input);
  const found = Object.entries(calls).find(
    ([, call]) => !call.asked && call.name === tool && call.input === text,
  );
  const callId = found?.[0] ?? id;
  if (!found) scribe.call(callId, { name: tool, input });
  const metadata = { call_id: callId, name: tool, input, kind: kindOf(tool) };
  scribe.askPermission({ native: id, tool }, { action: tool, metadata });
  const call = { name: tool, input: text, asked: true, ...(found ? {} : { madeUp: true }) };
  reading.change({ calls: { ...calls, [callId]: call } });
  return undefined;
}

/** Amp has cancelled a call before its answer. */
export function withdrawAsk({ scribe }: Reading, { id: native }: Fields): void {
  const id = scribe.findAsk((ask) => ask.native === native);
  const ask = id === undefined ? undefined : scribe.transcript.asks[id];
  if (id === undefined || !ask) return;
  const data = { permission_id: id, action: ask.tool, status: "denied" as const, metadata: { by: "agent" } };
  scribe.add({ type: "permission.resolved", data });
  scribe.forgetAsk(id);
}
