import { readdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { decodeEvents } from "../../../src/cli/decode-events.ts";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { initialContent, projectContent, type Emitted } from "../../../src/dialects/sdk/index.ts";
import type { LifecycleEvent, OutputEvent, SessionUpdate } from "../../../src/dialects/sdk/events.ts";
import { findHarness } from "../../../src/harness/index.ts";

const RECORDINGS = resolve(import.meta.dirname, "../../harness/recordings");

/** Every recording of an agent, by its name. */
export function recordingsOf(agent: string): string[] {
  return readdirSync(join(RECORDINGS, agent))
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => basename(name, ".jsonl"));
}

/** The log of a recording of a real CLI. */
export function decodeRecording(agent: string, name: string): SluiceEvent[] {
  const text = readFileSync(join(RECORDINGS, agent, `${name}.jsonl`), "utf8");
  return [...decodeEvents(findHarness(agent), text, name)].map(({ body }) => JSON.parse(body) as SluiceEvent);
}

/** All SDK events of a log. */
export function project(events: readonly SluiceEvent[]): Emitted[] {
  let state = initialContent();
  return events.flatMap((event) => {
    const projected = projectContent(state, event);
    state = projected.state;
    return [...projected.emitted];
  });
}

export function updatesOf(emitted: readonly Emitted[]): SessionUpdate[] {
  return emitted.flatMap((part) => (part.type === "content" ? [part.event.update] : []));
}

export function outputsOf(emitted: readonly Emitted[]): OutputEvent[] {
  return emitted.flatMap((part) => (part.type === "content" ? [part.event] : []));
}

export function reasonsOf(emitted: readonly Emitted[]): LifecycleEvent["reason"][] {
  return emitted.flatMap((part) => (part.type === "lifecycle" ? [part.event.reason] : []));
}

export function ofKind<K extends SessionUpdate["sessionUpdate"]>(
  updates: readonly SessionUpdate[],
  kind: K,
): Extract<SessionUpdate, { sessionUpdate: K }>[] {
  return updates.filter(
    (update): update is Extract<SessionUpdate, { sessionUpdate: K }> => update.sessionUpdate === kind,
  );
}

/** The joined text of chunks. */
export function textOf(updates: readonly SessionUpdate[], kind: SessionUpdate["sessionUpdate"]): string {
  return updates
    .map((update) =>
      update.sessionUpdate === kind && "content" in update && !Array.isArray(update.content)
        ? update.content?.type === "text"
          ? update.content.text
          : ""
        : "",
    )
    .join("");
}

let sequence = 0;

/** An event of the log that no recording has. */
export function event(draft: { type: string; data: unknown; parent_id?: string }): SluiceEvent {
  sequence += 1;
  return {
    sequence,
    event_id: `evt_${sequence}`,
    time: "2026-01-02T03:04:05.678Z",
    session_id: "ses_1",
    source: "agent",
    synthetic: false,
    turn_id: "turn_1",
    ...draft,
  } as unknown as SluiceEvent;
}

/** A tool call and its result. */
export function callOf(
  name: string,
  input: unknown,
  result: { output?: string; status?: "completed" | "failed" } = {},
): SluiceEvent[] {
  const call = { type: "tool_call", name, arguments: JSON.stringify(input), call_id: `call_${name}` };
  const item = {
    item_id: `itm_${name}`,
    kind: "tool_call",
    role: "assistant",
    status: "completed",
    content: [call],
  };
  const answer = { type: "tool_result", call_id: `call_${name}`, output: result.output ?? "done" };
  const back = {
    item_id: `itm_${name}_result`,
    parent_id: item.item_id,
    kind: "tool_result",
    role: "tool",
    status: result.status ?? "completed",
    content: [answer],
  };
  return [
    event({ type: "item.started", data: { item: { ...item, status: "in_progress" } } }),
    event({ type: "item.completed", data: { item } }),
    event({ type: "item.started", data: { item: { ...back, status: "in_progress", content: [] } } }),
    event({ type: "item.completed", data: { item: back } }),
  ];
}
