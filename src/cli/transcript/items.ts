import type { ContentPart, EventOf, Item } from "../../contract/index.ts";
import { toOneLine, toPrintable } from "./clean.ts";
import type { Pen } from "./pen.ts";
import { NO_OUTPUT, type OpenItem, type TranscriptState } from "./state.ts";
import { endOutput, toCallHeader, writeDiff, writeOutput } from "./tools.ts";

const PROMPT_LINES = 12;

export function startItem(state: TranscriptState, event: EventOf<"item.started">): TranscriptState {
  return remember(state, event.data.item.item_id, toOpen(event.data.item, state));
}

/** Text, thought and output appear as they come; a call's arguments only once they are whole. */
export function growItem(state: TranscriptState, event: EventOf<"item.delta">, pen: Pen): TranscriptState {
  const { item_id: id, delta } = event.data;
  const item = state.items[id] ?? UNKNOWN;
  const indent = indentOf(event);
  if (item.kind === "tool_call" || item.role === "user") return state;
  if (item.kind === "tool_result") {
    // Two results at once would mix their lines: the second is shown when it is complete.
    if (state.owner !== item.call && state.owner !== id) return grow(state, id, item, delta);
    const output = writeOutput(pen, item.output, delta, `${indent}  `);
    return { ...remember(state, id, { ...item, streamed: true, output }), owner: id };
  }
  if (state.owner !== id) {
    if (!item.streamed) pen.space();
    pen.endLine();
  }
  pen.flow(toPrintable(delta), indent, item.reasoning ? pen.paint.dim : String);
  return { ...remember(state, id, { ...item, streamed: true }), owner: id };
}

export function endItem(state: TranscriptState, event: EventOf<"item.completed">, pen: Pen): TranscriptState {
  const { item } = event.data;
  const open = state.items[item.item_id] ?? toOpen(item, state);
  const { [item.item_id]: _closed, ...items } = state.items;
  const next = { ...state, items };
  const place = { indent: indentOf(event), session: event.session_id };
  if (item.role === "user") return writePrompt(next, item, pen);
  if (item.kind === "tool_call") return writeCall(next, item, pen, place);
  if (item.kind === "tool_result") return writeResult(next, item, open, pen, place);
  if (item.kind === "status") return writeStatus(next, item, pen, place);
  return writeMessage(next, item, open, pen, place);
}

interface Place {
  readonly indent: string;
  readonly session: string;
  /** The diffs that the call has shown already. */
  readonly told?: readonly string[];
}

const UNKNOWN: OpenItem = {
  kind: "message",
  role: "assistant",
  reasoning: false,
  streamed: false,
  call: undefined,
  output: NO_OUTPUT,
};

function toOpen(item: Item, { calls }: TranscriptState): OpenItem {
  const result = item.content.find((part) => part.type === "tool_result");
  const call = calls[item.parent_id ?? ""] ?? calls[result?.call_id ?? ""];
  return {
    kind: item.kind,
    role: item.role,
    reasoning: item.content.some((part) => part.type === "reasoning"),
    streamed: false,
    call: call?.item,
    output: NO_OUTPUT,
  };
}

function remember(state: TranscriptState, id: string, item: OpenItem): TranscriptState {
  return { ...state, items: { ...state.items, [id]: item } };
}

function grow(state: TranscriptState, id: string, item: OpenItem, delta: string): TranscriptState {
  return remember(state, id, {
    ...item,
    output: { ...item.output, partial: item.output.partial + toPrintable(delta) },
  });
}

function writePrompt(state: TranscriptState, item: Item, pen: Pen): TranscriptState {
  const text = item.content.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
  const lines = toPrintable(text).trimEnd().split("\n");
  pen.space();
  for (const [n, line] of lines.slice(0, PROMPT_LINES).entries()) {
    pen.line(`${n === 0 ? pen.paint.magenta("›") : " "} ${pen.paint.bold(line)}`);
  }
  if (lines.length > PROMPT_LINES) pen.line(pen.paint.dim(`  … ${lines.length - PROMPT_LINES} more lines`));
  return { ...state, owner: item.item_id };
}

function writeCall(state: TranscriptState, item: Item, pen: Pen, place: Place): TranscriptState {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call) return state;
  const header = `${place.indent}${toCallHeader(pen, call)}`;
  pen.space();
  pen.line(header);
  // Nothing is written yet: this is what it would come to, for whoever is asked.
  const diffs = item.content.flatMap((part) => (part.type === "file_ref" && part.diff ? [part.diff] : []));
  for (const diff of diffs) writeDiff(pen, diff, `${place.indent}    `, place.session);
  const known = { item: item.item_id, header, diffs };
  const calls = { ...state.calls, [item.item_id]: known, [call.call_id]: known };
  return { ...state, owner: item.item_id, calls };
}

function writeResult(
  state: TranscriptState,
  item: Item,
  open: OpenItem,
  pen: Pen,
  place: Place,
): TranscriptState {
  const result = item.content.find((part) => part.type === "tool_result");
  const call = state.calls[open.call ?? ""];
  const indent = `${place.indent}  `;
  pen.endLine();
  if (state.owner !== call?.item && state.owner !== item.item_id) {
    pen.space();
    if (call) pen.line(call.header);
  }
  const failed = item.status === "failed";
  const text = isToldByFile(item) ? "" : (result?.output ?? "");
  const output = open.streamed ? open.output : writeOutput(pen, NO_OUTPUT, text, indent);
  endOutput(pen, output, { failed, indent, session: place.session });
  const exit = exitCodeOf(item);
  if (failed) pen.line(`${indent}${pen.paint.red(exit === undefined ? "✗ failed" : `✗ exit code ${exit}`)}`);
  const parts = exit === undefined ? item.content : item.content.filter((part) => part.type !== "json");
  writeParts(pen, parts, { ...place, told: call?.diffs ?? [] });
  return { ...state, owner: item.item_id };
}

/** "Wrote 47 bytes to a.txt" says no more than the line of the file itself. */
function isToldByFile(item: Item): boolean {
  const output = item.content.find((part) => part.type === "tool_result")?.output ?? "";
  const wrote = item.content.some((part) => part.type === "file_ref" && part.action !== "read");
  return wrote && item.status === "completed" && !output.trimEnd().includes("\n");
}

function exitCodeOf(item: Item): number | undefined {
  for (const part of item.content) {
    if (part.type !== "json") continue;
    const { exit_code: code } = (part.json ?? {}) as { exit_code?: unknown };
    if (typeof code === "number") return code;
  }
  return undefined;
}

function writeStatus(state: TranscriptState, item: Item, pen: Pen, place: Place): TranscriptState {
  const isShadowed = (part: ContentPart): boolean =>
    part.type === "status" && state.shadowed.includes(part.label.toLowerCase());
  for (const part of item.content) {
    if (part.type !== "status" || isShadowed(part)) continue;
    if (state.owner !== "status") pen.space();
    const detail = part.detail ? `  ${part.detail}` : "";
    pen.line(
      pen.paint.dim(`${place.indent}· ${toOneLine(part.label + detail, Math.min(pen.width, 400) - 4)}`),
    );
  }
  const files = item.content.some((part) => part.type === "file_ref");
  // The event beside it has shown what the JSON says.
  const isTold = item.content.some(isShadowed);
  writeParts(pen, isTold ? item.content.filter((part) => part.type !== "json") : item.content, place);
  return { ...state, owner: files ? state.owner : "status" };
}

function writeMessage(
  state: TranscriptState,
  item: Item,
  open: OpenItem,
  pen: Pen,
  place: Place,
): TranscriptState {
  const style = open.reasoning ? pen.paint.dim : String;
  const isOnlyWords = item.content.every((part) => part.type === "text" || part.type === "reasoning");
  // All of it was shown, and something else has been since.
  if (open.streamed && isOnlyWords && state.owner !== item.item_id) return state;
  if (open.streamed) pen.endLine(style);
  else {
    for (const part of item.content) {
      if (part.type !== "text" && part.type !== "reasoning") continue;
      pen.space();
      pen.flow(toPrintable(part.text), place.indent, part.type === "reasoning" ? pen.paint.dim : String);
      pen.endLine(part.type === "reasoning" ? pen.paint.dim : String);
    }
  }
  writeParts(pen, item.content, place);
  return { ...state, owner: item.item_id };
}

/** What stands beside the text: files, pictures, JSON. */
function writeParts(pen: Pen, parts: readonly ContentPart[], place: Place): void {
  const indent = `${place.indent}  `;
  for (const part of parts) {
    if (part.type === "file_ref") {
      const verb = { read: "read", write: "wrote", patch: "edited" }[part.action];
      const line = `✎ ${verb} ${toOneLine(part.path, 200)}`;
      pen.line(part.action === "read" ? pen.paint.dim(indent + line) : indent + pen.paint.green(line));
      if (part.diff && !place.told?.includes(part.diff))
        writeDiff(pen, part.diff, `${indent}  `, place.session);
    }
    if (part.type === "image")
      pen.line(`${indent}▣ image ${toOneLine(part.path.replace(/^data:.*/s, "(inline)"), 200)}`);
    if (part.type === "json") pen.line(pen.paint.dim(indent + toOneLine(JSON.stringify(part.json), 200)));
  }
}

/** What a sub-agent does stands a step further in. */
function indentOf(event: { parent_id?: string }): string {
  return event.parent_id === undefined ? "" : "  ";
}
