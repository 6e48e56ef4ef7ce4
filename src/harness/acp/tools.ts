import type { ContentPart } from "../../contract/index.ts";
import { isRecord, type Params } from "../rpc.ts";
import { own } from "../transcript.ts";
import { filesOf, pathsOf, textOf } from "./content.ts";
import type { Hand } from "./hand.ts";
import { toOutcome } from "./outcome.ts";
import { callPlace, endSpeech, parentOf } from "./speech.ts";
import type { ToolNotes } from "./state.ts";
import { readTodos } from "./todos.ts";
import { nameTool } from "./tool-name.ts";

export interface ToolSighting {
  readonly place: string;
  /** A first word on a call, or a later one. */
  readonly isUpdate: boolean;
}

/** A call as any message of the agent shows it: announced, asked for, running, or over. */
export function seeTool(hand: Hand, fields: Params, { place, isUpdate }: ToolSighting): boolean {
  const id = fields["toolCallId"];
  if (typeof id !== "string") return false;
  const before = own(hand.state.tools, id);
  if (before?.isDone) return true;
  if (!before) endSpeech(hand, place);
  const notes = merge(hand, before, fields);
  keep(hand, id, notes);
  const parent = parentOf(place);
  if (!hand.scribe.hasCall(id)) hand.scribe.startCall(id, { name: notes.name, parent });
  const { status } = fields;
  if (isKnown(fields, notes, isUpdate)) settleTool(hand, id, place);
  if (status === "in_progress") run(hand, id, isUpdate ? textOf(fields["content"]) : "");
  if (status !== "completed" && status !== "failed") return true;
  if (hand.dialect.holds?.(hand)) hand.note({ held: { call: id, fields } });
  else finish(hand, id, fields);
  return true;
}

/** The call's arguments are all there. */
export function settleTool(hand: Hand, id: string, place: string): void {
  const notes = own(hand.state.tools, id);
  if (!notes || notes.isSettled) return;
  const input = notes.input ?? {};
  hand.scribe.call(id, { name: notes.name, input, parent: parentOf(place) });
  keep(hand, id, { ...notes, isSettled: true });
  hand.dialect.settled?.(hand, id, { name: notes.name, input });
  const todos = hand.dialect.tellsPlans ? undefined : readTodos(notes.name, input);
  if (todos) hand.scribe.plan(todos, { parent: parentOf(place) });
}

/** A call that was held back ends, with whatever more is known by now. */
export function finishHeld(hand: Hand, more: Params = {}): void {
  const { held } = hand.state;
  if (!held) return;
  hand.note({ held: undefined });
  finish(hand, held.call, { ...held.fields, ...more });
}

/** Nothing more will be heard of these calls: they were denied. */
export function closeDenied(hand: Hand): void {
  for (const id of hand.state.denied) {
    const notes = own(hand.state.tools, id);
    if (!notes || notes.isDone) continue;
    hand.scribe.result(id, { output: "Denied by the user.", failed: true });
    keep(hand, id, { ...notes, isDone: true });
  }
  hand.note({ denied: [] });
}

function merge(hand: Hand, before: ToolNotes | undefined, fields: Params): ToolNotes {
  const named = hand.dialect.tool?.(fields, hand) ?? nameTool(fields, hand.state.servers);
  const title = text(fields["title"]) ?? before?.title ?? "";
  const kind = text(fields["kind"]) ?? before?.kind ?? "other";
  const raw = named.input ?? inputOf(fields);
  // The first arguments are the model's own; later ones may be the agent's rendering of them.
  const input = before?.isSettled || isEmpty(raw) ? before?.input : raw;
  const files = filesIn(fields, kind);
  return {
    // A name that an agent gave once is not replaced by a guess from a later title.
    name: before?.name ?? named.name,
    kind,
    title,
    ...(input === undefined ? {} : { input }),
    ...(before?.isSettled ? { isSettled: true } : {}),
    shown: before?.shown ?? "",
    files: files.length > 0 ? files : (before?.files ?? []),
  };
}

function isKnown(fields: Params, notes: ToolNotes, isUpdate: boolean): boolean {
  const { status } = fields;
  if (typeof status === "string" && status !== "pending") return true;
  if (notes.input === undefined || isEmpty(fields["rawInput"])) return false;
  return isUpdate || status === undefined;
}

function run(hand: Hand, id: string, whole: string): void {
  hand.scribe.startResult(id);
  const notes = own(hand.state.tools, id);
  if (!notes || whole.length <= notes.shown.length || !whole.startsWith(notes.shown)) return;
  hand.scribe.output(id, whole.slice(notes.shown.length));
  keep(hand, id, { ...notes, shown: whole });
}

function finish(hand: Hand, id: string, fields: Params): void {
  const notes = own(hand.state.tools, id);
  if (!notes) return;
  const outcome = toOutcome(fields);
  if (notes.shown !== "") run(hand, id, outcome.output);
  closeNested(hand, id);
  const content: ContentPart[] = [...outcome.content, ...(outcome.failed ? [] : notes.files)];
  hand.scribe.result(id, { ...outcome, content });
  keep(hand, id, {
    name: notes.name,
    kind: notes.kind,
    title: notes.title,
    shown: "",
    files: [],
    isDone: true,
  });
  hand.note({ denied: hand.state.denied.filter((denied) => denied !== id) });
}

/** What a sub-agent left open ends with the call that it ran in. */
function closeNested(hand: Hand, id: string): void {
  endSpeech(hand, callPlace(id));
  const nested = Object.keys(hand.scribe.transcript.calls).filter((native) => native.startsWith(`${id}/`));
  for (const native of nested) hand.scribe.result(native, { output: "" });
}

function filesIn({ content, locations }: Params, kind: string): ContentPart[] {
  const changed = filesOf(content);
  if (changed.length > 0 || kind !== "read") return changed;
  return pathsOf(locations).map((path) => ({ type: "file_ref", path, action: "read" }));
}

/** Where an agent does not tell the arguments, what it tells of the call stands for them. */
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

function keep(hand: Hand, id: string, notes: ToolNotes): void {
  hand.note({ tools: { ...hand.state.tools, [id]: notes } });
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
