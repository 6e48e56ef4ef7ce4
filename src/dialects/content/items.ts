import { own } from "../../contract/ownKeys.ts";
import { parseOthersJson } from "../../contract/index.ts";
import type { ContentPart, EventOf, Item } from "../../contract/index.ts";
import { fromUnifiedDiff, undoUnifiedDiff } from "./diff-texts.ts";
import type { Narrator } from "./narrator.ts";
import type {
  ContentBlock,
  DiffContent,
  SessionUpdate,
  ToolCallContent,
  ToolCallLocation,
} from "./output-event.ts";
import type { OpenCall, OpenItem } from "./state.ts";
import { isPlanTool, toToolFace } from "./tool-face.ts";

/** How much of a running tool's output is shown; all of it comes with its end. */
const TAIL = 16_000;
/** Agents that repeat the user's words in what they print. */
const ECHOING = new Set(["gemini"]);

export function tellItemStarted(
  narrator: Narrator,
  { data: { item }, parent_id }: EventOf<"item.started">,
): void {
  const opened = toOpen(narrator, item, parent_id);
  narrator.change({ open: { ...narrator.state.open, [item.item_id]: opened } });
  if (opened.kind !== "output") return;
  if (isSilent(narrator, opened.callId)) return;
  narrator.content({ sessionUpdate: "tool_call_update", toolCallId: opened.callId, status: "in_progress" });
}

export function tellDelta(narrator: Narrator, { data }: EventOf<"item.delta">): void {
  const open = own(narrator.state.open, data.item_id);
  if (!open || open.kind === "silent" || data.delta === "") return;
  if (open.kind === "output") {
    const tail = (open.tail + data.delta).slice(-TAIL);
    reopen(narrator, data.item_id, { ...open, tail });
    if (isSilent(narrator, open.callId)) return;
    const content = [toBlock(tail)];
    return narrator.content({
      sessionUpdate: "tool_call_update",
      toolCallId: open.callId,
      status: "in_progress",
      content,
    });
  }
  reopen(narrator, data.item_id, { ...open, shown: open.shown + data.delta.length });
  if (open.parent === undefined) chunk(narrator, open.kind, { type: "text", text: data.delta });
}

export function tellItemCompleted(narrator: Narrator, event: EventOf<"item.completed">): void {
  const { item } = event.data;
  const open = own(narrator.state.open, item.item_id) ?? toOpen(narrator, item, event.parent_id);
  const { [item.item_id]: _, ...rest } = narrator.state.open;
  narrator.change({ open: rest });
  if (item.kind === "tool_call") return tellCall(narrator, item);
  if (item.kind === "tool_result") return tellResult(narrator, item);
  if (open.kind === "silent" || open.kind === "output") return;
  if (open.parent !== undefined) return tellSubagent(narrator, item, open.parent);
  for (const part of item.content) {
    const image = part.type === "image" ? toImage(part) : undefined;
    if (image) chunk(narrator, open.kind, image);
    if (part.type !== "text" && part.type !== "reasoning") continue;
    // What was streamed was told already.
    const left = part.text.slice(open.shown);
    if (left !== "")
      chunk(narrator, part.type === "reasoning" ? "thought" : open.kind, { type: "text", text: left });
  }
}

function toOpen(narrator: Narrator, item: Item, parent: string | undefined): OpenItem {
  if (item.kind === "tool_result") return { kind: "output", callId: callIdOf(narrator, item), tail: "" };
  if (item.kind !== "message") return { kind: "silent" };
  const isUser = item.role === "user";
  if (isUser && !ECHOING.has(narrator.state.agent ?? "")) return { kind: "silent" };
  if (!isUser && item.role !== "assistant") return { kind: "silent" };
  const isThought = item.content.some((part) => part.type === "reasoning");
  const kind = isUser ? "user" : isThought ? "thought" : "text";
  const under = parent ?? item.parent_id;
  return { kind, shown: 0, ...(under === undefined ? {} : { parent: under }) };
}

function tellCall(narrator: Narrator, item: Item): void {
  const part = item.content.find((part) => part.type === "tool_call");
  if (!part) return;
  const rawInput = parseInput(part.arguments);
  const silent = isPlanTool(part.name);
  const { title, kind, content: announced = [], locations } = toToolFace(part.name, rawInput);
  const content = foreseen(item, announced);
  const call: OpenCall = { callId: part.call_id, name: part.name, content, silent, said: [] };
  narrator.change({ calls: { ...narrator.state.calls, [item.item_id]: call } });
  if (silent) return;
  narrator.content({
    sessionUpdate: "tool_call",
    toolCallId: part.call_id,
    title,
    kind,
    status: "pending",
    rawInput,
    ...(content.length === 0 ? {} : { content: [...content] }),
    ...(locations === undefined ? {} : { locations: [...locations] }),
  });
}

function tellResult(narrator: Narrator, item: Item): void {
  const call = item.parent_id === undefined ? undefined : own(narrator.state.calls, item.parent_id);
  if (call?.silent) return;
  const toolCallId = callIdOf(narrator, item);
  const content = [...toDiffs(item, call), ...item.content.flatMap(toShown)];
  const locations = toLocations(item);
  const title = /^exit_?plan_?mode$/i.test(call?.name ?? "") ? { title: "Exited Plan Mode" } : {};
  narrator.content({
    sessionUpdate: "tool_call_update",
    toolCallId,
    status: item.status === "failed" ? "failed" : "completed",
    ...title,
    ...(content.length === 0 ? {} : { content }),
    ...(locations.length === 0 ? {} : { locations }),
  });
}

/** What a sub-agent says belongs to the call that made it, and never to the agent's own answer. */
function tellSubagent(narrator: Narrator, item: Item, parent: string): void {
  const call = own(narrator.state.calls, parent);
  const texts = item.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  if (!call || texts.length === 0) return;
  const said = [...call.said, ...texts];
  narrator.change({ calls: { ...narrator.state.calls, [parent]: { ...call, said } } });
  narrator.content({
    sessionUpdate: "tool_call_update",
    toolCallId: call.callId,
    status: "in_progress",
    content: said.map(toBlock),
  });
}

/** The change itself as the agent reports it, else as the call announced it; of a failed call nothing was changed. */
function toDiffs(item: Item, call: OpenCall | undefined): ToolCallContent[] {
  if (item.status === "failed") return [];
  const announced = (call?.content ?? []).filter((part) => part.type === "diff");
  const reported = diffsIn(item, announced);
  return reported.length > 0 ? reported : announced;
}

/** What a call announces, with what is known of the files that it will overwrite. */
function foreseen(item: Item, announced: readonly ToolCallContent[]): readonly ToolCallContent[] {
  const diffs = announced.filter((part) => part.type === "diff");
  const known = new Map(diffsIn(item, diffs).map((diff) => [diff.path, diff]));
  return announced.map((part) => (part.type === "diff" ? (known.get(part.path) ?? part) : part));
}

/** Hunks show a part of a file; where the call says what it writes, both texts are whole. */
function diffsIn(item: Item, announced: readonly DiffContent[]): DiffContent[] {
  return item.content.flatMap((part): DiffContent[] => {
    if (part.type !== "file_ref" || part.diff === undefined) return [];
    const { path, diff } = part;
    const newText = announced.find((known) => known.path === path)?.newText;
    const oldText = newText === undefined ? undefined : undoUnifiedDiff(diff, newText);
    const shown = fromUnifiedDiff(diff);
    if (newText === undefined || oldText === undefined || shown.oldText === null)
      return [{ type: "diff", path, ...shown }];
    return [{ type: "diff", path, oldText, newText }];
  });
}

function toShown(part: ContentPart): ToolCallContent[] {
  if (part.type === "tool_result") return part.output === "" ? [] : [toBlock(part.output)];
  if (part.type === "text") return [toBlock(part.text)];
  const image = part.type === "image" ? toImage(part) : undefined;
  return image ? [{ type: "content", content: image }] : [];
}

function toLocations(item: Item): ToolCallLocation[] {
  return item.content.flatMap((part) => (part.type === "file_ref" ? [{ path: part.path }] : []));
}

function callIdOf(narrator: Narrator, item: Item): string {
  const part = item.content.find((part) => part.type === "tool_result");
  if (part) return part.call_id;
  const call = item.parent_id === undefined ? undefined : own(narrator.state.calls, item.parent_id);
  return call?.callId ?? item.native_item_id ?? item.item_id;
}

function isSilent(narrator: Narrator, callId: string): boolean {
  return Object.values(narrator.state.calls).some((call) => call.silent && call.callId === callId);
}

const CHUNKS = {
  text: "agent_message_chunk",
  thought: "agent_thought_chunk",
  user: "user_message_chunk",
} as const;

function chunk(narrator: Narrator, kind: keyof typeof CHUNKS, content: ContentBlock): void {
  narrator.content({ sessionUpdate: CHUNKS[kind], content } as SessionUpdate);
}

function reopen(narrator: Narrator, id: string, open: OpenItem): void {
  narrator.change({ open: { ...narrator.state.open, [id]: open } });
}

function toBlock(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

function toImage({ path, mime }: Extract<ContentPart, { type: "image" }>): ContentBlock {
  const [, type, data] = /^data:([^;,]*)(?:;[^,]*)?,(.*)$/s.exec(path) ?? [];
  if (data === undefined) return { type: "image", data: "", mimeType: mime ?? "image/png", uri: path };
  return { type: "image", data, mimeType: mime ?? (type || "image/png") };
}

function parseInput(text: string): unknown {
  if (text === "") return {};
  try {
    return parseOthersJson(text);
  } catch {
    return text;
  }
}
