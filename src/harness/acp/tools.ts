import type { ContentPart, PlanEntry } from "../../contract/index.ts";
import { isRecord } from "../fields.ts";
import { toMcpName } from "../launch/mcp.ts";
import type { Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { filesOf, pathsOf, textOf, toOutcome } from "./content.ts";
import type { AcpReading, NamedTool } from "./dialect.ts";
import { callOrigin, endSpeech, parentOf } from "./messages.ts";
import type { ToolNotes } from "./state.ts";

interface ToolContext {
  readonly origin: string;
  /** Whether this is a later message about the call. */
  readonly isUpdate: boolean;
}

/** A call in any message of the agent: announced, asked for, running, or ended. */
export function readTool(reading: AcpReading, fields: Params, { origin, isUpdate }: ToolContext): boolean {
  const id = fields["toolCallId"];
  if (typeof id !== "string") return false;
  const before = own(reading.state.tools, id);
  if (before?.isDone) return true;
  if (!before) endSpeech(reading, origin);
  const notes = merge(reading, before, fields);
  keep(reading, id, notes);
  const parent = parentOf(origin);
  if (!reading.scribe.hasCall(id)) reading.scribe.startCall(id, { name: notes.name, parent });
  const { status } = fields;
  if (hasAllArguments(fields, notes, isUpdate)) settleTool(reading, id, origin);
  if (status === "in_progress") reportOutput(reading, id, isUpdate ? textOf(fields["content"]) : "");
  if (status !== "completed" && status !== "failed") return true;
  if (reading.dialect.holds?.(reading)) reading.change({ held: { call: id, fields } });
  else finish(reading, id, fields);
  return true;
}

/** Completes a call when all of its arguments are known. */
export function settleTool(reading: AcpReading, id: string, origin: string): void {
  const notes = own(reading.state.tools, id);
  if (!notes || notes.isSettled) return;
  const input = notes.input ?? {};
  reading.scribe.call(id, { name: notes.name, input, parent: parentOf(origin) });
  keep(reading, id, { ...notes, isSettled: true });
  reading.dialect.settled?.(reading, id, { name: notes.name, input });
  const todos = reading.dialect.reportsPlans ? undefined : readTodos(notes.name, input);
  if (todos) reading.scribe.plan(todos, { parent: parentOf(origin) });
}

/** Ends the held call, with the outcome known by now. */
export function finishHeld(reading: AcpReading, more: Params = {}): void {
  const { held } = reading.state;
  if (!held) return;
  reading.change({ held: undefined });
  finish(reading, held.call, { ...held.fields, ...more });
}

/** Ends the denied calls: the agent does not report their end. */
export function closeDenied(reading: AcpReading): void {
  for (const id of reading.state.denied) {
    const notes = own(reading.state.tools, id);
    if (!notes || notes.isDone) continue;
    reading.scribe.result(id, { output: "Denied by the user.", failed: true });
    keep(reading, id, { ...notes, isDone: true });
  }
  reading.change({ denied: [] });
}

function merge(reading: AcpReading, before: ToolNotes | undefined, fields: Params): ToolNotes {
  const named = reading.dialect.tool?.(fields, reading) ?? nameTool(fields, reading.state.servers);
  const title = text(fields["title"]) ?? before?.title ?? "";
  const kind = text(fields["kind"]) ?? before?.kind ?? "other";
  const raw = named.input ?? inputOf(fields);
  // The first arguments are the model's own. Later ones may be the agent's rendering of them.
  const input = before?.isSettled || isEmpty(raw) ? before?.input : raw;
  const files = filesIn(fields, kind);
  return {
    // The first name stays: a later title is only a guess.
    name: before?.name ?? named.name,
    kind,
    title,
    ...(input === undefined ? {} : { input }),
    ...(before?.isSettled ? { isSettled: true } : {}),
    shown: before?.shown ?? "",
    files: files.length > 0 ? files : (before?.files ?? []),
  };
}

/**
 * Whether a call's arguments are complete: its status is beyond `pending`, or an update (or a message without status)
 * has them.
 */
function hasAllArguments(fields: Params, notes: ToolNotes, isUpdate: boolean): boolean {
  const { status } = fields;
  if (typeof status === "string" && status !== "pending") return true;
  if (notes.input === undefined || isEmpty(fields["rawInput"])) return false;
  return isUpdate || status === undefined;
}

/** Marks a call as running, and reports the output that is new. `whole` is all output so far. */
function reportOutput(reading: AcpReading, id: string, whole: string): void {
  reading.scribe.startResult(id);
  const notes = own(reading.state.tools, id);
  if (!notes || whole.length <= notes.shown.length || !whole.startsWith(notes.shown)) return;
  reading.scribe.output(id, whole.slice(notes.shown.length));
  keep(reading, id, { ...notes, shown: whole });
}

function finish(reading: AcpReading, id: string, fields: Params): void {
  const notes = own(reading.state.tools, id);
  if (!notes) return;
  const outcome = toOutcome(fields);
  if (notes.shown !== "") reportOutput(reading, id, outcome.output);
  closeNested(reading, id);
  const content: ContentPart[] = [...outcome.content, ...(outcome.failed ? [] : notes.files)];
  reading.scribe.result(id, { ...outcome, content });
  keep(reading, id, {
    name: notes.name,
    kind: notes.kind,
    title: notes.title,
    shown: "",
    files: [],
    isDone: true,
  });
  reading.change({ denied: reading.state.denied.filter((denied) => denied !== id) });
}

/** Ends a sub-agent's open items with its call. */
function closeNested(reading: AcpReading, id: string): void {
  endSpeech(reading, callOrigin(id));
  const nested = Object.keys(reading.scribe.transcript.calls).filter((native) => native.startsWith(`${id}/`));
  for (const native of nested) reading.scribe.result(native, { output: "" });
}

function filesIn({ content, locations }: Params, kind: string): ContentPart[] {
  const changed = filesOf(content);
  if (changed.length > 0 || kind !== "read") return changed;
  return pathsOf(locations).map((path) => ({ type: "file_ref", path, action: "read" }));
}

/** The arguments of a call, or its title and path if the agent leaves the arguments out. */
function inputOf(fields: Params): unknown {
  const { rawInput, title, kind, locations } = fields;
  if (rawInput !== undefined && rawInput !== null) return rawInput;
  const [path] = pathsOf(locations);
  const said = text(title);
  if (said === undefined) return undefined;
  if (kind === "execute") return { command: said };
  return path === undefined ? { title: said } : { title: said, path };
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (isRecord(value) && Object.keys(value).length === 0);
}

function keep(reading: AcpReading, id: string, notes: ToolNotes): void {
  reading.change({ tools: { ...reading.state.tools, [id]: notes } });
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A tool's name, from the fields in which agents keep it. The protocol itself has only titles. */
function nameTool(fields: Params, servers: readonly string[]): NamedTool {
  const { title, kind, name, rawInput, _meta: meta } = fields;
  if (isRecord(rawInput) && typeof rawInput["server"] === "string" && typeof rawInput["tool"] === "string") {
    return { name: `mcp__${rawInput["server"]}__${rawInput["tool"]}`, input: rawInput["arguments"] };
  }
  const given = typeof name === "string" ? name : ownName(meta);
  if (given !== undefined) return { name: toMcpName(given, servers, "_") ?? given };
  const said = typeof title === "string" ? title : "";
  // A title of one word is the tool's name; a longer one describes the call.
  if (/^[A-Za-z_][\w.-]*$/.test(said)) return { name: toMcpName(said, servers, "_") ?? said };
  if (isRecord(rawInput) && rawInput["command"] !== undefined) return { name: "execute" };
  return { name: typeof kind === "string" && kind !== "other" ? kind : said || "tool" };
}

/** `_meta` of the known adapters: `{"claudeCode":{"toolName":"Bash"}}`. */
function ownName(meta: unknown): string | undefined {
  if (!isRecord(meta)) return undefined;
  for (const value of Object.values(meta)) {
    if (isRecord(value) && typeof value["toolName"] === "string") return value["toolName"];
  }
  return undefined;
}

/** The plan in a to-do tool's arguments; undefined for any other call. */
function readTodos(name: string, input: unknown): PlanEntry[] | undefined {
  if (!/todo/i.test(name) || !isRecord(input) || !Array.isArray(input["todos"])) return undefined;
  return toEntries(input["todos"]);
}

/** Plan entries of ACP, or of a similar tool. */
export function toEntries(list: readonly unknown[]): PlanEntry[] | undefined {
  const entries = list.filter(isRecord).flatMap((entry): PlanEntry[] => {
    const content = entry["content"] ?? entry["description"];
    if (typeof content !== "string") return [];
    return [{ content, status: toStatus(entry["status"]), priority: toPriority(entry["priority"]) }];
  });
  return entries.length === list.length ? entries : undefined;
}

function toStatus(status: unknown): PlanEntry["status"] {
  // A cancelled entry is settled, like a completed one.
  if (status === "completed" || status === "cancelled") return "completed";
  return status === "in_progress" ? "in_progress" : "pending";
}

function toPriority(priority: unknown): PlanEntry["priority"] {
  return priority === "high" || priority === "low" ? priority : "medium";
}
