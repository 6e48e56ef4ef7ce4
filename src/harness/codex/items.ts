import { asText, isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { own, type TextKind, without } from "../transcript.ts";
import { changeAgent, ensureModel, isMain, originOf, type Reading } from "./state.ts";
import { toOutcome } from "./tools.ts";

/** Reads the start of an item. Returns the problem of an unknown or malformed one. */
export function startItem(reading: Reading, item: Params, thread: string | undefined): string | undefined {
  const { id, type } = item;
  if (typeof id !== "string") return "an item without an id";
  if (SILENT.has(String(type)) || WHOLE.has(String(type))) return undefined;
  if (type === "agentMessage" || type === "plan") {
    ensureModel(reading, thread);
    reading.scribe.startText(id, originOf(reading, thread));
    return undefined;
  }
  const name = toolName(item);
  if (name === undefined) return `an unknown kind of item ${String(type)}`;
  ensureModel(reading, thread);
  const origin = originOf(reading, thread);
  if (ENDS_WITH_ARGUMENTS.has(String(type))) {
    reading.scribe.startCall(id, { name, ...origin });
    return undefined;
  }
  reading.scribe.call(id, { name, input: inputOf(item), ...origin });
  if (type === "commandExecution" && typeof item["processId"] === "string") reading.scribe.startResult(id);
  if (type === "collabAgentToolCall") noteSpawn(reading, item);
  if (type === "fileChange" || type === "mcpToolCall") {
    const call = { name, input: inputOf(item), thread: thread ?? "" };
    reading.change({ calls: { ...reading.state.calls, [id]: call } });
  }
  return undefined;
}

/** Reads a complete item. A tool call that the turn's end has closed stays closed. */
export function endItem(
  reading: Reading,
  item: Params,
  { thread, turn }: { thread?: string | undefined; turn?: string | undefined } = {},
): string | undefined {
  const { id, type } = item;
  if (typeof id !== "string") return "an item without an id";
  const { scribe, state } = reading;
  switch (type) {
    case "agentMessage":
    case "plan": {
      const text = typeof item["text"] === "string" ? item["text"] : "";
      const isOpen = own(scribe.transcript.texts, id) !== undefined;
      if (isOpen || isMain(reading, thread)) endText(reading, id, text, "text", thread);
      if (type === "plan" && isMain(reading, thread)) reading.change({ plan: text });
      return undefined;
    }
    case "reasoning": {
      const isOpen = own(scribe.transcript.texts, id) !== undefined;
      if (isOpen || isMain(reading, thread)) endText(reading, id, thoughtOf(item), "reasoning", thread);
      return undefined;
    }
    case "contextCompaction":
      return void scribe.compacted(
        { trigger: state.compacting ? "manual" : "auto" },
        originOf(reading, thread),
      );
    case "enteredReviewMode":
    case "exitedReviewMode":
      scribe.status(type === "enteredReviewMode" ? "review started" : "review ended", {
        detail: typeof item["review"] === "string" ? item["review"] : undefined,
        ...originOf(reading, thread),
      });
      return undefined;
    case "subAgentActivity":
      return void readActivity(reading, item, thread);
  }
  if (SILENT.has(String(type))) return undefined;
  const name = toolName(item);
  if (name === undefined) return `an unknown kind of item ${String(type)}`;
  if (!scribe.hasCall(id)) {
    // Codex tells the end of an item also after its turn, or in the next one.
    const isOver =
      isMain(reading, thread) && (!state.prompted || (turn !== undefined && turn !== state.turn));
    if (isOver || (!isMain(reading, thread) && !ENDS_WITH_ARGUMENTS.has(String(type)))) return undefined;
  }
  scribe.call(id, { name, input: inputOf(item), ...originOf(reading, thread) });
  if (type === "collabAgentToolCall") noteSpawn(reading, item);
  scribe.result(id, toOutcome(item));
  if (own(state.calls, id)) reading.change({ calls: without(reading.state.calls, id) });
  return undefined;
}

/** Types without a fact: echoes of our messages, hooks, and pauses. */
const SILENT = new Set(["userMessage", "hookPrompt", "sleep"]);
/** Types that are reported only when they are complete. */
const WHOLE = new Set([
  "reasoning",
  "contextCompaction",
  "enteredReviewMode",
  "exitedReviewMode",
  "subAgentActivity",
]);
/** Tools whose arguments are known only at their end. */
const ENDS_WITH_ARGUMENTS = new Set(["webSearch", "imageGeneration", "functionCallOutput"]);

/** The model's name of the tool, or the nearest name that the item shows. */
function toolName(item: Params): string | undefined {
  switch (item["type"]) {
    case "commandExecution":
      return item["source"] === "unifiedExecInteraction" ? "write_stdin" : "exec_command";
    case "fileChange":
      return "apply_patch";
    case "mcpToolCall":
      return `mcp__${String(item["server"])}__${String(item["tool"])}`;
    case "dynamicToolCall":
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

/** Notes the threads of new sub-agents. The parent of a sub-agent is the call that made it. */
function noteSpawn(reading: Reading, item: Params): void {
  if (!/spawn/i.test(String(item["tool"]))) return;
  const parent = reading.scribe.callItem(String(item["id"]));
  if (parent === undefined) return;
  reading.change({ spawning: parent });
  const { receiverThreadIds: receivers, agentsStates: states } = item;
  const made = [
    ...(Array.isArray(receivers) ? receivers : []),
    ...(isRecord(states) ? Object.keys(states) : []),
  ];
  for (const thread of made) if (typeof thread === "string") adopt(reading, thread, parent);
}

/** Reads the report of a sub-agent. Newer versions send it in place of the call that made the sub-agent. */
function readActivity(reading: Reading, item: Params, thread: string | undefined): void {
  const { id, kind, agentThreadId: agent, agentPath } = item;
  if (typeof agent !== "string") return;
  const { scribe, state } = reading;
  const asked = own(state.unanswered ?? {}, String(id));
  if (kind === "started" && (asked !== undefined || state.spawning === undefined)) {
    const { name, input } = asked ?? { name: "spawn_agent", input: { agentPath } };
    scribe.call(String(id), { name, input, ...originOf(reading, thread) });
    adopt(reading, agent, scribe.callItem(String(id)));
    if (asked === undefined) scribe.result(String(id), { output: String(agentPath ?? "") });
    else reading.change({ unanswered: { ...state.unanswered, [String(id)]: { ...asked, told: true } } });
    return;
  }
  adopt(reading, agent, state.spawning);
}

function adopt(reading: Reading, thread: string, item: string | undefined): void {
  const known = own(reading.state.agents, thread);
  if (known?.item === undefined && item !== undefined) changeAgent(reading, thread, { item });
}

/** A delta of a message, a thought or a plan. False for a malformed one. */
export function addText(reading: Reading, params: Params, kind: TextKind): boolean {
  const { itemId, delta, threadId } = params;
  if (typeof itemId !== "string" || typeof delta !== "string") return false;
  const { scribe } = reading;
  if (scribe.delta(itemId, delta)) return true;
  // A thought starts with its first text, because many thoughts have no text. A sub-agent may
  // write on after the main turn's end has closed its text: it is opened again.
  scribe.startText(itemId, { kind, ...originOf(reading, asText(threadId)) });
  return scribe.delta(itemId, delta);
}

/** The next part of a summary is a paragraph of its own. */
export function addPart(reading: Reading, params: Params): boolean {
  const { itemId, summaryIndex } = params;
  if (typeof itemId !== "string") return false;
  const open = own(reading.scribe.transcript.texts, itemId);
  if (open && open.text !== "" && summaryIndex !== 0) reading.scribe.delta(itemId, "\n\n");
  return true;
}

function endText(
  reading: Reading,
  id: string,
  text: string,
  kind: TextKind,
  thread: string | undefined,
): void {
  const { scribe } = reading;
  const open = own(scribe.transcript.texts, id);
  if (open) {
    scribe.endText(id, text.startsWith(open.text) ? text : undefined);
    return;
  }
  if (text !== "") scribe.sayWhole(id, text, { kind, ...originOf(reading, thread) });
}
