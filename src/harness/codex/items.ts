import { isRecord, type Params } from "../rpc.ts";
import { own, without } from "../transcript.ts";
import { toOutcome } from "./outcome.ts";
import { change, changeAgent, ensureModel, isMain, placeOf, type Reading } from "./reading.ts";
import { endText } from "./texts.ts";

/** An item of a thread has begun. Undefined, or why the item says nothing to us. */
export function startItem(reading: Reading, item: Params, thread: string | undefined): string | undefined {
  const { id, type } = item;
  if (typeof id !== "string") return "an item without an id";
  if (SILENT.has(String(type)) || WHOLE.has(String(type))) return undefined;
  if (type === "agentMessage" || type === "plan") {
    ensureModel(reading, thread);
    reading.scribe.startText(id, placeOf(reading, thread));
    return undefined;
  }
  const name = toolName(item);
  if (name === undefined) return `an unknown kind of item ${String(type)}`;
  ensureModel(reading, thread);
  const place = placeOf(reading, thread);
  if (LATE.has(String(type))) {
    reading.scribe.startCall(id, { name, ...place });
    return undefined;
  }
  reading.scribe.call(id, { name, input: inputOf(item), ...place });
  if (type === "commandExecution" && typeof item["processId"] === "string") reading.scribe.startResult(id);
  if (type === "collabAgentToolCall") noteSpawn(reading, item);
  if (type === "fileChange" || type === "mcpToolCall") {
    const call = { name, input: inputOf(item), thread: thread ?? "" };
    change(reading, { calls: { ...reading.state.calls, [id]: call } });
  }
  return undefined;
}

/** An item is complete. What was closed already, by a turn's end say, stays closed. */
export function endItem(reading: Reading, item: Params, thread: string | undefined): string | undefined {
  const { id, type } = item;
  if (typeof id !== "string") return "an item without an id";
  const { scribe, state } = reading;
  switch (type) {
    case "agentMessage":
    case "plan": {
      const text = typeof item["text"] === "string" ? item["text"] : "";
      const isOpen = own(scribe.transcript.texts, id) !== undefined;
      if (isOpen || isMain(reading, thread)) endText(reading, id, text, "text", thread);
      if (type === "plan" && isMain(reading, thread)) change(reading, { plan: text });
      return undefined;
    }
    case "reasoning": {
      const isOpen = own(scribe.transcript.texts, id) !== undefined;
      if (isOpen || isMain(reading, thread)) endText(reading, id, thoughtOf(item), "reasoning", thread);
      return undefined;
    }
    case "contextCompaction":
      scribe.compacted({ trigger: state.compacting ? "manual" : "auto" }, placeOf(reading, thread));
      return undefined;
    case "enteredReviewMode":
    case "exitedReviewMode":
      scribe.status(type === "enteredReviewMode" ? "review started" : "review ended", {
        detail: typeof item["review"] === "string" ? item["review"] : undefined,
        ...placeOf(reading, thread),
      });
      return undefined;
    case "subAgentActivity":
      hearActivity(reading, item, thread);
      return undefined;
  }
  if (SILENT.has(String(type))) return undefined;
  const name = toolName(item);
  if (name === undefined) return `an unknown kind of item ${String(type)}`;
  const isLate = !scribe.hasCall(id) && (!isMain(reading, thread) || !state.prompted);
  if (isLate && !LATE.has(String(type))) return undefined;
  scribe.call(id, { name, input: inputOf(item), ...placeOf(reading, thread) });
  if (type === "collabAgentToolCall") noteSpawn(reading, item);
  scribe.result(id, toOutcome(item));
  if (own(state.calls, id)) change(reading, { calls: without(reading.state.calls, id) });
  return undefined;
}

/** Echoes of what was said to Codex, and the machinery of its hooks. */
const SILENT = new Set(["userMessage", "hookPrompt", "sleep"]);
/** Told when they are over. */
const WHOLE = new Set([
  "reasoning",
  "contextCompaction",
  "enteredReviewMode",
  "exitedReviewMode",
  "subAgentActivity",
]);
/** Tools whose arguments are known only when they are done. */
const LATE = new Set(["webSearch", "imageGeneration", "functionCallOutput"]);

/** The name by which the model calls the tool, as far as the item gives it away. */
function toolName(item: Params): string | undefined {
  switch (item["type"]) {
    case "commandExecution":
      return item["source"] === "unifiedExecInteraction" ? "write_stdin" : "exec_command";
    case "fileChange":
      return "apply_patch";
    case "mcpToolCall":
      return `mcp__${String(item["server"])}__${String(item["tool"])}`;
    case "dynamicToolCall":
      return String(item["tool"]);
    case "collabAgentToolCall":
      return String(item["tool"]);
    case "webSearch":
      return "web_search";
    case "imageView":
      return "view_image";
    case "imageGeneration":
      return "image_generation";
    case "functionCallOutput":
      return String(item["name"]);
    default:
      return undefined;
  }
}

function inputOf(item: Params): unknown {
  switch (item["type"]) {
    case "commandExecution":
      return { command: item["command"], ...(typeof item["cwd"] === "string" ? { cwd: item["cwd"] } : {}) };
    case "fileChange":
      return { changes: item["changes"] };
    case "mcpToolCall":
    case "dynamicToolCall":
      return item["arguments"] ?? {};
    case "collabAgentToolCall":
      return { prompt: item["prompt"], receiverThreadIds: item["receiverThreadIds"] };
    case "webSearch":
      return { query: item["query"] };
    case "imageView":
      return { path: item["path"] };
    case "imageGeneration":
      return { prompt: item["revisedPrompt"] };
    default:
      return {};
  }
}

function thoughtOf({ summary, content }: Params): string {
  const parts = [summary, content].flatMap((list) => (Array.isArray(list) ? list : []));
  return parts.filter((part) => typeof part === "string").join("\n\n");
}

/** A sub-agent speaks under a thread of its own; the call that made it is its parent. */
function noteSpawn(reading: Reading, item: Params): void {
  if (!/spawn/i.test(String(item["tool"]))) return;
  const parent = reading.scribe.callItem(String(item["id"]));
  if (parent === undefined) return;
  change(reading, { spawning: parent });
  const { receiverThreadIds: receivers, agentsStates: states } = item;
  const made = [
    ...(Array.isArray(receivers) ? receivers : []),
    ...(isRecord(states) ? Object.keys(states) : []),
  ];
  for (const thread of made) if (typeof thread === "string") adopt(reading, thread, parent);
}

/** What newer versions tell of a sub-agent in place of the call that made it. */
function hearActivity(reading: Reading, item: Params, thread: string | undefined): void {
  const { id, kind, agentThreadId: agent, agentPath } = item;
  if (typeof agent !== "string") return;
  const { scribe, state } = reading;
  const asked = own(state.unanswered ?? {}, String(id));
  if (kind === "started" && (asked !== undefined || state.spawning === undefined)) {
    const { name, input } = asked ?? { name: "spawn_agent", input: { agentPath } };
    scribe.call(String(id), { name, input, ...placeOf(reading, thread) });
    adopt(reading, agent, scribe.callItem(String(id)));
    if (asked === undefined) scribe.result(String(id), { output: String(agentPath ?? "") });
    else change(reading, { unanswered: { ...state.unanswered, [String(id)]: { ...asked, told: true } } });
    return;
  }
  adopt(reading, agent, state.spawning);
}

function adopt(reading: Reading, thread: string, item: string | undefined): void {
  const known = own(reading.state.agents, thread);
  if (known?.item === undefined && item !== undefined) changeAgent(reading, thread, { item });
}
