import { type ContentPart, type Item, own, without } from "../../contract/index.ts";
import type { Projectors } from "../shared/projection.ts";
import { parseArguments } from "../shared/text.ts";
import type {
  ContentBlock,
  DiffContent,
  SessionUpdate,
  ToolCallContent,
  ToolCallLocation,
} from "./events.ts";
import type { OpenCall, OpenItem, SdkProjection } from "./projection.ts";
import { fromUnifiedDiff, isPlanTool, toToolDisplay, undoUnifiedDiff } from "./tool-display.ts";

/** The count of characters at the end of a running tool's output that are shown. The result shows the whole output. */
const TAIL = 16_000;
/** Agents that repeat the user's messages. With any other agent the user's messages are not shown. */
const ECHOING = new Set(["gemini"]);

export const itemProjectors: Projectors<SdkProjection> = {
  "item.started": (projection, { data: { item }, parent_id }) => {
    const opened = toOpen(projection, item, parent_id);
    projection.change({ open: { ...projection.state.open, [item.item_id]: opened } });
    if (opened.kind !== "output" || isSilent(projection, opened.callId)) return;
    showProgress(projection, opened.callId);
  },

  "item.delta": (projection, { data }) => {
    const open = own(projection.state.open, data.item_id);
    if (!open || open.kind === "silent" || data.delta === "") return;
    if (open.kind === "output") {
      const tail = (open.tail + data.delta).slice(-TAIL);
      reopen(projection, data.item_id, { ...open, tail });
      if (isSilent(projection, open.callId)) return;
      return showProgress(projection, open.callId, [toBlock(tail)]);
    }
    reopen(projection, data.item_id, { ...open, shown: open.shown + data.delta.length });
    if (open.parent === undefined) chunk(projection, open.kind, { type: "text", text: data.delta });
  },

  "item.completed": (projection, event) => {
    const { item } = event.data;
    const open = own(projection.state.open, item.item_id) ?? toOpen(projection, item, event.parent_id);
    projection.change({ open: without(projection.state.open, item.item_id) });
    if (item.kind === "tool_call") return projectCall(projection, item);
    if (item.kind === "tool_result") return projectResult(projection, item);
    if (open.kind === "silent" || open.kind === "output") return;
    if (open.parent !== undefined) return projectSubagent(projection, item, open.parent);
    for (const part of item.content) {
      const image = part.type === "image" ? toImage(part) : undefined;
      if (image) chunk(projection, open.kind, image);
      if (part.type !== "text" && part.type !== "reasoning") continue;
      // Deltas have shown the beginning of the text already.
      const left = part.text.slice(open.shown);
      if (left !== "")
        chunk(projection, part.type === "reasoning" ? "thought" : open.kind, { type: "text", text: left });
    }
  },
};

function toOpen(projection: SdkProjection, item: Item, parent: string | undefined): OpenItem {
  if (item.kind === "tool_result") return { kind: "output", callId: callIdOf(projection, item), tail: "" };
  if (item.kind !== "message") return { kind: "silent" };
  const isUser = item.role === "user";
  if (isUser && !ECHOING.has(projection.state.agent ?? "")) return { kind: "silent" };
  if (!isUser && item.role !== "assistant") return { kind: "silent" };
  const isThought = item.content.some((part) => part.type === "reasoning");
  const spoken = isThought ? "thought" : "text";
  const kind = isUser ? "user" : spoken;
  const under = parent ?? item.parent_id;
  return { kind, shown: 0, ...(under === undefined ? {} : { parent: under }) };
}

function projectCall(projection: SdkProjection, item: Item): void {
  const part = item.content.find((part) => part.type === "tool_call");
  if (!part) return;
  const rawInput = parseArguments(part.arguments);
  const silent = isPlanTool(part.name);
  const { title, kind, content: announced = [], locations } = toToolDisplay(part.name, rawInput);
  const content = foreseen(item, announced);
  const call: OpenCall = { callId: part.call_id, name: part.name, content, silent, said: [] };
  projection.change({ calls: { ...projection.state.calls, [item.item_id]: call } });
  if (silent) return;
  projection.content({
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

function projectResult(projection: SdkProjection, item: Item): void {
  const call = item.parent_id === undefined ? undefined : own(projection.state.calls, item.parent_id);
  if (call?.silent) return;
  const toolCallId = callIdOf(projection, item);
  const content = [...toDiffs(item, call), ...item.content.flatMap(toShown)];
  const locations = toLocations(item);
  const title = /^exit_?plan_?mode$/i.test(call?.name ?? "") ? { title: "Exited Plan Mode" } : {};
  projection.content({
    sessionUpdate: "tool_call_update",
    toolCallId,
    status: item.status === "failed" ? "failed" : "completed",
    ...title,
    ...(content.length === 0 ? {} : { content }),
    ...(locations.length === 0 ? {} : { locations }),
  });
}

/** A sub-agent's messages belong to its call, never to the agent's answer. */
function projectSubagent(projection: SdkProjection, item: Item, parent: string): void {
  const call = own(projection.state.calls, parent);
  const texts = item.content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  if (!call || texts.length === 0) return;
  const said = [...call.said, ...texts];
  projection.change({ calls: { ...projection.state.calls, [parent]: { ...call, said } } });
  showProgress(projection, call.callId, said.map(toBlock));
}

function showProgress(projection: SdkProjection, toolCallId: string, content?: ToolCallContent[]): void {
  const status = "in_progress";
  projection.content({
    sessionUpdate: "tool_call_update",
    toolCallId,
    status,
    ...(content && { content }),
  });
}

/** The diffs of the result, else those that the call announced; a failed call changed nothing. */
function toDiffs(item: Item, call: OpenCall | undefined): ToolCallContent[] {
  if (item.status === "failed") return [];
  const announced = (call?.content ?? []).filter((part) => part.type === "diff");
  const reported = diffsIn(item, announced);
  return reported.length > 0 ? reported : announced;
}

/** The announced content of a call, with the old text of each file that the call overwrites. */
function foreseen(item: Item, announced: readonly ToolCallContent[]): readonly ToolCallContent[] {
  const diffs = announced.filter((part) => part.type === "diff");
  const known = new Map(diffsIn(item, diffs).map((diff) => [diff.path, diff]));
  return announced.map((part) => (part.type === "diff" ? (known.get(part.path) ?? part) : part));
}

/**
 * The diffs of an item. A hunk has only a part of the file. If the call gave the whole new text, the whole old text is
 * computed from it.
 */
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

function callIdOf(projection: SdkProjection, item: Item): string {
  const part = item.content.find((part) => part.type === "tool_result");
  if (part) return part.call_id;
  const call = item.parent_id === undefined ? undefined : own(projection.state.calls, item.parent_id);
  return call?.callId ?? item.native_item_id ?? item.item_id;
}

function isSilent(projection: SdkProjection, callId: string): boolean {
  return Object.values(projection.state.calls).some((call) => call.silent && call.callId === callId);
}

const CHUNKS = {
  text: "agent_message_chunk",
  thought: "agent_thought_chunk",
  user: "user_message_chunk",
} as const;

function chunk(projection: SdkProjection, kind: keyof typeof CHUNKS, content: ContentBlock): void {
  projection.content({ sessionUpdate: CHUNKS[kind], content } as SessionUpdate);
}

function reopen(projection: SdkProjection, id: string, open: OpenItem): void {
  projection.change({ open: { ...projection.state.open, [id]: open } });
}

function toBlock(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

function toImage({ path, mime }: Extract<ContentPart, { type: "image" }>): ContentBlock {
  const [, type, data] = /^data:([^;,]*)(?:;[^,]*)?,(.*)$/s.exec(path) ?? [];
  if (data === undefined) return { type: "image", data: "", mimeType: mime ?? "image/png", uri: path };
  return { type: "image", data, mimeType: mime ?? (type || "image/png") };
}
