import { own } from "../../contract/ownKeys.ts";
import { parseOthersJson } from "../../contract/index.ts";
import type { ContentPart, EventOf, Item } from "../../contract/index.ts";
import type { OpenStep } from "./state.ts";
import type { Teller } from "./teller.ts";

/** A call is a step from when its arguments are whole. */
export function tellCall(teller: Teller, item: Item): void {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call) return;
  start(teller, item.item_id, {
    name: call.name,
    args: parseArguments(call.arguments),
    callId: call.call_id,
  });
}

/** What came back ends the step. */
export function tellResult(teller: Teller, item: Item): void {
  const result = item.content.find((part) => part.type === "tool_result");
  const key = keyOf(teller, item, result?.call_id);
  const step = key === undefined ? undefined : own(teller.turn.steps, key);
  if (!step || key === undefined) return;
  const output = result?.output ?? toText(item.content);
  if (item.status !== "failed") return end(teller, key, { result: toValue(output) });
  end(teller, key, { error: output === "" ? toExit(item.content) : output });
}

/** A tool that the application runs and the agent has no item for; the others are steps already. */
export function tellToolRequest(teller: Teller, { data }: EventOf<"tool.requested">): void {
  const { call_id: callId, name, input, request_id } = data;
  if (callId !== undefined && findCall(teller, callId) !== undefined) return;
  start(teller, request_id, { name, args: input, callId: undefined });
}

export function tellToolAnswer(teller: Teller, { data }: EventOf<"tool.resolved">): void {
  if (!Object.hasOwn(teller.turn.steps, data.request_id)) return;
  const text = toText(data.content);
  const { status } = data;
  end(
    teller,
    data.request_id,
    status === "completed" ? { result: toValue(text) } : { error: text || status },
  );
}

/** Nothing of a turn is open at its end; what a log without its beginning left open is closed here. */
export function endSteps(teller: Teller): void {
  for (const key of Object.keys(teller.turn.steps)) end(teller, key, { error: "interrupted" });
}

function start(
  teller: Teller,
  key: string,
  { name, args, callId }: { name: string; args: unknown; callId: string | undefined },
): void {
  const id = `step_${key.replace(/^[a-z]+_/, "")}`;
  const { ts } = teller;
  teller.open(key, { id, name, callId, since: ts });
  teller.say({ type: "step", id, name, status: "running", args, ts });
}

function end(teller: Teller, key: string, outcome: { result: unknown } | { error: string }): void {
  const { id, name, since } = own(teller.turn.steps, key) as OpenStep;
  const { ts } = teller;
  const durationMs = ts - since;
  teller.close(key);
  if ("error" in outcome) {
    const { error } = outcome;
    return teller.say({ type: "step", id, name, status: "failed", error, durationMs, ts });
  }
  teller.say({ type: "step", id, name, status: "succeeded", result: outcome.result, durationMs, ts });
}

function keyOf(teller: Teller, item: Item, callId: string | undefined): string | undefined {
  const { steps } = teller.turn;
  if (item.parent_id !== undefined && Object.hasOwn(steps, item.parent_id)) return item.parent_id;
  return findCall(teller, callId ?? item.native_item_id);
}

function findCall(teller: Teller, callId: string | undefined): string | undefined {
  if (callId === undefined) return undefined;
  return Object.entries(teller.turn.steps).find(([, step]) => step.callId === callId)?.[0];
}

function toText(content: readonly ContentPart[]): string {
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
}

/** A command that fails may say nothing but its exit code. */
function toExit(content: readonly ContentPart[]): string {
  const codes = content.map((part) =>
    part.type === "json" ? (part.json as { exit_code?: unknown } | null)?.exit_code : undefined,
  );
  const code = codes.find((found) => typeof found === "number");
  return code === undefined ? "failed" : `exit code ${code}`;
}

/** What a tool returned: the log has its text, and a text that is an object or a list is that value. */
function toValue(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return parseOthersJson(text);
  } catch {
    return text;
  }
}

function parseArguments(text: string): unknown {
  if (text === "") return {};
  try {
    return parseOthersJson(text);
  } catch {
    return text;
  }
}
