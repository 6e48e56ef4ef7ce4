import type { SpoolLine } from "../../contract/index.ts";
import { isRecord } from "../rpc.ts";
import type { Scribe } from "../scribe.ts";
import type { AmpAsk, AmpState } from "./state.ts";
import { kindOf } from "./tools.ts";

/** The gate's question whether a tool may run. It knows the tool and its arguments, not the call's id. */
export function decodeAsk(
  state: AmpState,
  line: SpoolLine,
  { value, scribe }: { value: Readonly<Record<string, unknown>>; scribe: Scribe<AmpAsk> },
): AmpState {
  const { id, tool } = value;
  if (typeof id !== "string" || typeof tool !== "string") {
    scribe.unparsed(line, "a malformed permission.asked");
    return state;
  }
  const input = isRecord(value["input"]) ? value["input"] : {};
  const text = JSON.stringify(input);
  const found = Object.entries(state.calls).find(
    ([, call]) => !call.asked && call.name === tool && call.input === text,
  );
  const callId = found?.[0] ?? id;
  if (!found) scribe.call(callId, { name: tool, input });
  const metadata = { call_id: callId, name: tool, input, kind: kindOf(tool) };
  scribe.askPermission({ native: id, tool }, { action: tool, metadata });
  const call = { name: tool, input: text, asked: true, ...(found ? {} : { madeUp: true }) };
  return { ...state, calls: { ...state.calls, [callId]: call } };
}

/** Amp has given the call up while somebody was still thinking about it. */
export function withdrawAsk({ id: native }: Readonly<Record<string, unknown>>, scribe: Scribe<AmpAsk>): void {
  const id = scribe.findAsk((ask) => ask.native === native);
  const ask = id === undefined ? undefined : scribe.transcript.asks[id];
  if (id === undefined || !ask) return;
  const data = { permission_id: id, action: ask.tool, status: "denied" as const, metadata: { by: "agent" } };
  scribe.add({ type: "permission.resolved", data });
  scribe.forgetAsk(id);
}
