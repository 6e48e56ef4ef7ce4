import type { ContentPart, EventOf, Item } from "../../contract/index.ts";
import { type Pen, toOneLine, toPrintable } from "./pen.ts";
import { NO_OUTPUT, type OpenItem, type TranscriptState } from "./state.ts";
import { endOutput, toCallHeader, writeDiff, writeOutput } from "./tools.ts";

const PROMPT_LINES = 12;

export function startItem(state: TranscriptState, event: EventOf<"item.started">): TranscriptState {
  return remember(state, event.data.item.item_id, toOpen(event.data.item, state));
}

/** Prints text, thoughts and output as they come. A call's arguments wait until they are complete. */
export function growItem(state: TranscriptState, event: EventOf<"item.delta">, pen: Pen): TranscriptState {
  const { item_id: id, delta } = event.data;
  const item = state.items[id] ?? UNKNOWN;
  const indent = indentOf(event);
  if (item.kind === "tool_call" || item.role === "user") return state;
  if (item.kind === "tool_result") {
    // Two results at once would mix their lines, so the second one waits for its end.
    if (state.last !== item.call && state.last !== id) return withhold(state, id, item, delta);
    const output = writeOutput(pen, item.output, delta, `${indent}  `);
    return { ...remember(state, id, { ...item, streamed: true, output }), last: id };
  }
  if (state.last !== id) {
    if (!item.streamed) pen.space();
    pen.endLine();
  }
  pen.flow(toPrintable(delta), indent, item.reasoning ? pen.paint.dim : String);
  return { ...remember(state, id, { ...item, streamed: true }), last: id };
}

export function endItem(state: TranscriptState, event: EventOf<"item.completed">, pen: Pen): TranscriptState {
  const { item } = event.data;
  const open = state.items[item.item_id] ?? toOpen(item, state);
  const { [item.item_id]: _closed, ...items } = state.items;
  const next = { ...state, items };
  const context = { indent: indentOf(event), session: event.session_id, open };
  if (item.role === "user") return writePrompt(next, item, pen);
  if (item.kind === "tool_call") return writeCall(next, item, pen, context);
  if (item.kind === "tool_result") return writeResult(next, item, pen, context);
  if (item.kind === "status") return writeStatus(next, item, pen, context);
  return writeMessage(next, item, pen, context);
}

interface Context {
  readonly indent: string;
  readonly session: string;
  readonly open: OpenItem;
  /** The diffs that were printed with the call. */
  readonly shownDiffs?: readonly string[];
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

/** Keeps output until its item completes. */
function withhold(state: TranscriptState, id: string, item: OpenItem, delta: string): TranscriptState {
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
  return { ...state, last: item.item_id };
}

function writeCall(state: TranscriptState, item: Item, pen: Pen, context: Context): TranscriptState {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call) return state;
  const header = `${context.indent}${toCallHeader(pen, call)}`;
  pen.space();
  pen.line(header);
  // A person decides on a pending call by its diff.
  const diffs = item.content.flatMap((part) => (part.type === "file_ref" && part.diff ? [part.diff] : []));
  for (const diff of diffs) writeDiff(pen, diff, `${context.indent}    `, context.session);
  const known = { item: item.item_id, header, diffs };
  const calls = { ...state.calls, [item.item_id]: known, [call.call_id]: known };
  return { ...state, last: item.item_id, calls };
}

function writeResult(state: TranscriptState, item: Item, pen: Pen, context: Context): TranscriptState {
  const { open } = context;
  const result = item.content.find((part) => part.type === "tool_result");
  const call = state.calls[open.call ?? ""];
  const indent = `${context.indent}  `;
  pen.endLine();
  if (state.last !== call?.item && state.last !== item.item_id) {
    pen.space();
    if (call) pen.line(call.header);
  }
  const failed = item.status === "failed";
  const text = repeatsFileLine(item) ? "" : (result?.output ?? "");
  const output = open.streamed ? open.output : writeOutput(pen, NO_OUTPUT, text, indent);
  endOutput(pen, output, { failed, indent, session: context.session });
  const exit = exitCodeOf(item);
  if (failed) pen.line(`${indent}${pen.paint.red(exit === undefined ? "✗ failed" : `✗ exit code ${exit}`)}`);
  const parts = exit === undefined ? item.content : item.content.filter((part) => part.type !== "json");
  writeParts(pen, parts, { ...context, shownDiffs: call?.diffs ?? [] });
  return { ...state, last: item.item_id };
}

/** Whether the output only repeats the file's line, as "Wrote 47 bytes to a.txt" does. */
function repeatsFileLine(item: Item): boolean {
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

function writeStatus(state: TranscriptState, item: Item, pen: Pen, context: Context): TranscriptState {
  const isShadowed = (part: ContentPart): boolean =>
    part.type === "status" && state.shadowed.includes(part.label.toLowerCase());
  for (const part of item.content) {
    if (part.type !== "status" || isShadowed(part)) continue;
    if (state.last !== "status") pen.space();
    const detail = part.detail ? `  ${part.detail}` : "";
    pen.line(
      pen.paint.dim(`${context.indent}· ${toOneLine(part.label + detail, Math.min(pen.width, 400) - 4)}`),
    );
  }
  const hasFiles = item.content.some((part) => part.type === "file_ref");
  // An event with the same content as the JSON is printed already.
  const isShown = item.content.some(isShadowed);
  writeParts(pen, isShown ? item.content.filter((part) => part.type !== "json") : item.content, context);
  return { ...state, last: hasFiles ? state.last : "status" };
}

function writeMessage(state: TranscriptState, item: Item, pen: Pen, context: Context): TranscriptState {
  const { open } = context;
  const style = open.reasoning ? pen.paint.dim : String;
  const isOnlyWords = item.content.every((part) => part.type === "text" || part.type === "reasoning");
  // The whole message is printed already, and a later item is below it.
  if (open.streamed && isOnlyWords && state.last !== item.item_id) return state;
  if (open.streamed) pen.endLine(style);
  else {
    for (const part of item.content) {
      if (part.type !== "text" && part.type !== "reasoning") continue;
      pen.space();
      pen.flow(toPrintable(part.text), context.indent, part.type === "reasoning" ? pen.paint.dim : String);
      pen.endLine(part.type === "reasoning" ? pen.paint.dim : String);
    }
  }
  writeParts(pen, item.content, context);
  return { ...state, last: item.item_id };
}

/** Prints files, images and JSON. */
function writeParts(pen: Pen, parts: readonly ContentPart[], context: Context): void {
  const indent = `${context.indent}  `;
  for (const part of parts) {
    if (part.type === "file_ref") {
      const verb = { read: "read", write: "wrote", patch: "edited" }[part.action];
      const line = `✎ ${verb} ${toOneLine(part.path, 200)}`;
      pen.line(part.action === "read" ? pen.paint.dim(indent + line) : indent + pen.paint.green(line));
      if (part.diff && !context.shownDiffs?.includes(part.diff))
        writeDiff(pen, part.diff, `${indent}  `, context.session);
    }
    if (part.type === "image")
      pen.line(`${indent}▣ image ${toOneLine(part.path.replace(/^data:.*/s, "(inline)"), 200)}`);
    if (part.type === "json") pen.line(pen.paint.dim(indent + toOneLine(JSON.stringify(part.json), 200)));
  }
}

/** A sub-agent's items are indented. */
function indentOf(event: { parent_id?: string }): string {
  return event.parent_id === undefined ? "" : "  ";
}
