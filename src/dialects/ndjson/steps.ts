import { type ContentPart, type EventOf, type Item, own, parseJsonOr } from "../../contract/index.ts";
import { parseArguments, toText } from "../shared/text.ts";
import type { NdjsonProjection, OpenStep } from "./projection.ts";

/** Starts a step for a call with complete arguments. */
export function projectCall(projection: NdjsonProjection, item: Item): void {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call) return;
  start(projection, item.item_id, {
    name: call.name,
    args: parseArguments(call.arguments),
    callId: call.call_id,
  });
}

/** Ends the step of a tool result. */
export function projectResult(projection: NdjsonProjection, item: Item): void {
  const result = item.content.find((part) => part.type === "tool_result");
  const key = keyOf(projection, item, result?.call_id);
  const step = key === undefined ? undefined : own(projection.turn.steps, key);
  if (!step || key === undefined) return;
  const output = result?.output ?? toText(item.content);
  if (item.status !== "failed") return end(projection, key, { result: toValue(output) });
  end(projection, key, { error: output === "" ? toExit(item.content) : output });
}

/** Starts a step for a tool request, unless the agent's own call has started it. */
export function projectToolRequest(projection: NdjsonProjection, { data }: EventOf<"tool.requested">): void {
  const { call_id: callId, name, input, request_id } = data;
  if (callId !== undefined && findCall(projection, callId) !== undefined) return;
  start(projection, request_id, { name, args: input, callId: undefined });
}

export function projectToolAnswer(projection: NdjsonProjection, { data }: EventOf<"tool.resolved">): void {
  if (!Object.hasOwn(projection.turn.steps, data.request_id)) return;
  const text = toText(data.content);
  const { status } = data;
  end(
    projection,
    data.request_id,
    status === "completed" ? { result: toValue(text) } : { error: text || status },
  );
}

/** Ends the steps that are still open at the turn's end. */
export function endSteps(projection: NdjsonProjection): void {
  for (const key of Object.keys(projection.turn.steps)) end(projection, key, { error: "interrupted" });
}

function start(
  projection: NdjsonProjection,
  key: string,
  { name, args, callId }: { name: string; args: unknown; callId: string | undefined },
): void {
  const id = `step_${key.replace(/^[a-z]+_/, "")}`;
  const { ts } = projection;
  projection.open(key, { id, name, callId, since: ts });
  projection.emit({ type: "step", id, name, status: "running", args, ts });
}

function end(
  projection: NdjsonProjection,
  key: string,
  outcome: { result: unknown } | { error: string },
): void {
  const { id, name, since } = own(projection.turn.steps, key) as OpenStep;
  const { ts } = projection;
  const durationMs = ts - since;
  projection.close(key);
  if ("error" in outcome) {
    const { error } = outcome;
    return projection.emit({ type: "step", id, name, status: "failed", error, durationMs, ts });
  }
  projection.emit({ type: "step", id, name, status: "succeeded", result: outcome.result, durationMs, ts });
}

function keyOf(projection: NdjsonProjection, item: Item, callId: string | undefined): string | undefined {
  const { steps } = projection.turn;
  if (item.parent_id !== undefined && Object.hasOwn(steps, item.parent_id)) return item.parent_id;
  return findCall(projection, callId ?? item.native_item_id);
}

function findCall(projection: NdjsonProjection, callId: string | undefined): string | undefined {
  if (callId === undefined) return undefined;
  return Object.entries(projection.turn.steps).find(([, step]) => step.callId === callId)?.[0];
}

/** The error of a failed command without output: its exit code. */
function toExit(content: readonly ContentPart[]): string {
  const codes = content.map((part) =>
    part.type === "json" ? (part.json as { exit_code?: unknown } | null)?.exit_code : undefined,
  );
  const code = codes.find((found) => typeof found === "number");
  return code === undefined ? "failed" : `exit code ${code}`;
}

/** A tool's output as a value: JSON objects and lists are parsed, other text stays text. */
function toValue(text: string): unknown {
  return /^\s*[[{]/.test(text) ? parseJsonOr(text, text) : text;
}
