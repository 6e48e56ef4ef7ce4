import type { SpoolLine } from "../../contract/index.ts";

/** Lines of a sample, by who says them. */
export function toLines(said: readonly (readonly ["in" | "out", object])[]): SpoolLine[] {
  return said.map(([dir, message], at) => ({ dir, text: JSON.stringify(message), at }));
}

/** A notification of the sample's session. */
export function updated(update: object, session = "sample"): readonly ["out", object] {
  return ["out", { jsonrpc: "2.0", method: "session/update", params: { sessionId: session, update } }];
}

export function chunk(kind: "message" | "thought", text: string, session?: string): readonly ["out", object] {
  return updated({ sessionUpdate: `agent_${kind}_chunk`, content: { type: "text", text } }, session);
}

export function sent(id: string | number, method: string, params: object): readonly ["in", object] {
  return ["in", { jsonrpc: "2.0", id, method, params }];
}

export function answered(id: string | number, result: object): readonly ["out", object] {
  return ["out", { jsonrpc: "2.0", id, result }];
}

export function replied(id: string | number, result: object): readonly ["in", object] {
  return ["in", { jsonrpc: "2.0", id, result }];
}

export const PROMPT = { sessionId: "sample", prompt: [{ type: "text", text: "Hello" }] };
