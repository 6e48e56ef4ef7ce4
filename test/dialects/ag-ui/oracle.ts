import { type BaseEvent, verifyEvents } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { EventSchemas as EventSchemas0, verifyEvents as verifyEvents0 } from "ag-ui-client-0";
import { from, lastValueFrom, toArray } from "rxjs";
import { expect } from "vitest";
import { agUi, type AgUiView } from "../../../src/dialects/ag-ui/index.ts";
import type { Frame, StoredEventText } from "../../../src/dialects/port.ts";

export interface Told extends Record<string, unknown> {
  readonly type: string;
  readonly timestamp: number;
}

/** All frames of this view for these events, up to the end of the stream. */
export function tellAll(
  view: AgUiView,
  events: Iterable<StoredEventText>,
): { frames: Frame[]; told: Told[] } {
  let state = agUi.initial(view);
  const frames: Frame[] = [];
  for (const event of events) {
    const projected = agUi.project(state, event);
    state = projected.state;
    frames.push(...projected.frames);
    if (projected.last) break;
  }
  return { frames, told: frames.map(({ data }) => JSON.parse(data) as Told) };
}

/** The rules of both client generations by their own code, and the rules that neither checks. */
export async function expectTellable(told: readonly Told[], view: AgUiView = {}): Promise<void> {
  for (const event of told) {
    const parsed = EventSchema.safeParse(event);
    expect(parsed.error, JSON.stringify(event).slice(0, 600)).toBeUndefined();
    const known = SPEC_KEYS[event.type];
    expect(known, event.type).toBeDefined();
    for (const key of Object.keys(event)) expect(known, `${event.type}.${key}`).toContain(key);
    if (view.protocol === undefined) {
      const parsed0 = EventSchemas0.safeParse(event);
      expect(parsed0.error, JSON.stringify(event).slice(0, 600)).toBeUndefined();
    }
  }
  await lastValueFrom(from(told as unknown as BaseEvent[]).pipe(verifyEvents(), toArray()));
  if (view.protocol === undefined)
    await lastValueFrom(from(told as never[]).pipe(verifyEvents0(false) as never, toArray()));
  expectRules(told);
}

/** Rules that no client verifies: ids, terminals, pairs, times. */
export function expectRules(told: readonly Told[]): void {
  let run: string | undefined;
  const starts = new Map<string, Told>();
  const results = new Set<unknown>();
  let state: Record<string, unknown> | undefined;
  let time = 0;
  for (const event of told) {
    expect(Number.isSafeInteger(event.timestamp), event.type).toBe(true);
    expect(event.timestamp).toBeGreaterThanOrEqual(time);
    time = event.timestamp;
    if (event.type === "STATE_SNAPSHOT") state = structuredClone(event["snapshot"]) as typeof state;
    if (event.type === "STATE_DELTA") for (const patch of event["delta"] as Patch[]) replace(state, patch);
    if (event.type === "RUN_STARTED") {
      // A reader of this run alone gets a snapshot of the state before any delta.
      state = undefined;
      expect(run).toBeUndefined();
      run = String(event["runId"]);
      continue;
    }
    expect(run, `${event.type} stands in a run`).toBeDefined();
    if (event.type === "RUN_FINISHED") {
      expect(event["runId"]).toBe(run);
      expectState(state, event);
    }
    if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") run = undefined;
    if (event.type === "CUSTOM") expect(event["value"]).not.toBeUndefined();
    if (event.type === "MESSAGES_SNAPSHOT") {
      const messages = event["messages"] as { toolCalls?: { id: string }[] }[];
      for (const { id } of messages.flatMap(({ toolCalls = [] }) => toolCalls)) starts.set(id, event);
    }
    if (event.type === "TOOL_CALL_START") starts.set(String(event["toolCallId"]), event);
    if (event.type === "TOOL_CALL_RESULT") {
      expect(starts.has(String(event["toolCallId"])), "a result has its call").toBe(true);
      expect(results.has(event["toolCallId"]), "one result for each call").toBe(false);
      results.add(event["toolCallId"]);
    }
  }
}

interface Patch {
  readonly op: string;
  readonly path: string;
  readonly value: unknown;
}

/** Clients drop a delta that does not apply, so each of ours has to apply. */
function replace(state: Record<string, unknown> | undefined, { op, path, value }: Patch): void {
  expect(op).toBe("replace");
  const keys = path.split("/").slice(1);
  const last = keys.pop() ?? "";
  let parent: unknown = state;
  for (const key of keys) parent = (parent as Record<string, unknown>)[key];
  expect(Object.keys(parent as object), path).toContain(last);
  (parent as Record<string, unknown>)[last] = value;
}

/** The client's copy of the state after a run equals the run's final state. */
function expectState(state: Record<string, unknown> | undefined, { outcome, metadata }: Told): void {
  const shared = state?.["sluice"] as { status: string; pending: { id: string }[] } | undefined;
  const { type, interrupts = [] } = outcome as { type: string; interrupts?: { id: string }[] };
  if (type === "interrupt") expect(shared).toBeDefined();
  if (!shared) return;
  const { finishReason } = (metadata as { tanstack: { finishReason: string } }).tanstack;
  const isWaiting = type === "interrupt" || finishReason === "tool_calls";
  expect(shared.status).toBe(isWaiting ? "waiting" : "idle");
  expect(shared.pending.map(({ id }) => id).sort()).toEqual(interrupts.map(({ id }) => id).sort());
}

/** The event names of the specification; clients drop any other event with a warning. */
const base = ["type", "timestamp", "metadata"];
const ofAgent = [...base, "subagentRunId"];
const text = [...ofAgent, "messageId"];
const call = [...ofAgent, "toolCallId"];
const SPEC_KEYS: Readonly<Record<string, readonly string[]>> = {
  RUN_STARTED: [...base, "threadId", "runId", "protocolVersion", "parentRunId"],
  RUN_FINISHED: [...base, "threadId", "runId", "result", "outcome", "usage"],
  RUN_ERROR: [...base, "message", "code", "usage"],
  TEXT_MESSAGE_START: [...text, "role"],
  TEXT_MESSAGE_CONTENT: [...text, "delta"],
  TEXT_MESSAGE_END: text,
  REASONING_START: text,
  REASONING_MESSAGE_START: [...text, "role"],
  REASONING_MESSAGE_CONTENT: [...text, "delta"],
  REASONING_MESSAGE_END: text,
  REASONING_END: text,
  TOOL_CALL_START: [...call, "toolCallName", "parentMessageId"],
  TOOL_CALL_ARGS: [...call, "delta"],
  TOOL_CALL_END: call,
  TOOL_CALL_RESULT: [...call, "messageId", "content", "role"],
  STATE_SNAPSHOT: [...ofAgent, "snapshot"],
  STATE_DELTA: [...ofAgent, "delta"],
  MESSAGES_SNAPSHOT: [...base, "messages"],
  ACTIVITY_SNAPSHOT: [...text, "activityType", "content", "replace"],
  SUBAGENT_STARTED: [...ofAgent, "name", "description", "parentSubagentRunId", "parentToolCallId"],
  SUBAGENT_FINISHED: [...ofAgent, "outcome"],
  SUBAGENT_ERROR: [...ofAgent, "message"],
  CUSTOM: [...ofAgent, "name", "value"],
  RAW: [...ofAgent, "event", "source"],
};

export const typesOf = (told: readonly Told[]): string[] => told.map(({ type }) => type);
export const customs = (told: readonly Told[], name: string): Told[] =>
  told.filter((event) => event.type === "CUSTOM" && event["name"] === name);
