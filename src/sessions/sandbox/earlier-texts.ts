import { isRecord, parseJsonOr, type ContentPart, type EventDraft, type Item } from "../../contract/index.ts";
import { commonToolName } from "../../contract/tool-names.ts";
import type { HarnessFact } from "../../harness/port.ts";
import { toUnifiedDiff } from "../../text/unified-diff.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { FileTexts } from "./file-texts.ts";

type FileRef = Extract<ContentPart, { type: "file_ref" }>;

/** Adds a diff to the tool items that overwrite a file: few agents report a diff. */
export class EarlierTexts {
  readonly #texts: FileTexts;
  readonly #hide: (text: string) => string;
  /** The files that open calls write, by the id of the call's item. */
  readonly #calls = new Map<string, readonly Write[]>();

  constructor(sandbox: Sandbox, hide: (text: string) => string) {
    this.#texts = new FileTexts(sandbox);
    this.#hide = hide;
  }

  /** Reads the files that have not changed since this time. */
  readAhead(since: number): Promise<void> {
    return this.#texts.readAhead(since);
  }

  /** Takes the changes of the watcher into account. */
  async changed(events: readonly EventDraft[], turn: { inTurn: boolean }): Promise<void> {
    const paths = events.flatMap((event) => (event.type === "file.changed" ? [event.data.path] : []));
    await this.#texts.changed(paths, turn);
  }

  /** The facts of a turn that began at `since`, with a diff for each overwritten file. */
  async withDiffs(facts: readonly HarnessFact[], since: number): Promise<readonly HarnessFact[]> {
    const found: HarnessFact[] = [];
    for (const fact of facts) {
      if (!isToolItem(fact)) found.push(fact);
      else found.push({ ...fact, data: { item: await this.#withDiffs(fact.data.item, since) } });
    }
    return found;
  }

  /** The open calls end with the turn. */
  async endTurn(): Promise<void> {
    this.#calls.clear();
    await this.#texts.settle();
  }

  async #withDiffs(item: Item, since: number): Promise<Item> {
    return item.kind === "tool_call" ? this.#callWithDiffs(item, since) : this.#resultWithDiffs(item);
  }

  async #callWithDiffs(item: Item, since: number): Promise<Item> {
    const writes: Write[] = [];
    for (const { path, text } of writesOf(item)) {
      const before = await this.#texts.before(path, text, since);
      const diff = before === undefined ? undefined : this.#hide(toUnifiedDiff(path, before, text));
      writes.push({ path, text, ...(diff === undefined ? {} : { ref: toRef(path, diff) }) });
    }
    if (writes.length === 0) return item;
    this.#calls.set(item.item_id, writes);
    const reported = new Set(fileRefsOf(item).map(({ path }) => path));
    const refs = refsOf(writes).filter(({ path }) => !reported.has(path));
    return refs.length === 0 ? item : { ...item, content: [...item.content, ...refs] };
  }

  #resultWithDiffs(item: Item): Item {
    const writes = this.#calls.get(item.parent_id ?? "") ?? [];
    this.#calls.delete(item.parent_id ?? "");
    const isDone = item.status !== "failed";
    for (const { path, action } of fileRefsOf(item))
      if (action !== "read") this.#texts.wrote(path, textOf(isDone ? writes : [], path));
    const refs = refsOf(writes);
    if (!isDone || refs.length === 0) return item;
    return {
      ...item,
      content: item.content.map((part) => {
        // An agent may report an overwritten file as new.
        if (part.type !== "file_ref" || (part.diff && !part.diff.startsWith("--- /dev/null"))) return part;
        return refs.find(({ path }) => path === part.path) ?? part;
      }),
    };
  }
}

/** A file that a call writes as a whole, and the diff. */
interface Write {
  readonly path: string;
  readonly text: string;
  readonly ref?: FileRef;
}

function toRef(path: string, diff: string): FileRef {
  return { type: "file_ref", path, action: "write", diff };
}

function refsOf(writes: readonly Write[]): FileRef[] {
  return writes.flatMap(({ ref }) => (ref ? [ref] : []));
}

function textOf(writes: readonly Write[], path: string): string | undefined {
  return writes.find((write) => write.path === path)?.text;
}

/** Whether the fact is a tool's call or its result. */
export function isToolItem(fact: HarnessFact): fact is Extract<HarnessFact, { type: "item.completed" }> {
  if (fact.type !== "item.completed") return false;
  const { kind } = fact.data.item;
  return kind === "tool_call" || kind === "tool_result";
}

function fileRefsOf(item: Item): FileRef[] {
  return item.content.filter((part) => part.type === "file_ref");
}

/** The files that a call writes as a whole, with their texts. */
function writesOf(item: Item): { path: string; text: string }[] {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call || !WRITERS.has(commonToolName(call.name)) || call.arguments.length > MOST_ARGUMENTS) return [];
  const input = toFields(parseJsonOr(call.arguments, {}));
  const changes = Array.isArray(input["changes"]) ? input["changes"].map(toFields) : [];
  if (changes.length > 0) return changes.flatMap(toAdded);
  const path = PATHS.map((key) => input[key]).find((value) => typeof value === "string");
  const text = TEXTS.map((key) => input[key]).find((value) => typeof value === "string");
  return typeof path === "string" && typeof text === "string" ? [{ path, text }] : [];
}

/** Longer arguments are not parsed. */
const MOST_ARGUMENTS = 256 * 1024;
const WRITERS = new Set(["write", "create_file", "edit"]);
const PATHS = ["file_path", "filePath", "path", "target_file"];
const TEXTS = ["content", "contents", "file_text"];

/** Codex uses "add" for every file that it writes as a whole. */
function toAdded({ path, kind, diff }: Fields): { path: string; text: string }[] {
  const type = typeof kind === "string" ? kind : toFields(kind)["type"];
  return type === "add" && typeof path === "string" && typeof diff === "string" ? [{ path, text: diff }] : [];
}

type Fields = Readonly<Record<string, unknown>>;

function toFields(value: unknown): Fields {
  return isRecord(value) ? value : {};
}
