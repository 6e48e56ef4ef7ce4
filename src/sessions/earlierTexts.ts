import type { ContentPart, Item } from "../contract/index.ts";
import { commonToolName } from "../contract/toolNames.ts";
import type { HarnessFact } from "../harness/port.ts";
import { toUnifiedDiff } from "../harness/scripted/agent/unified-diff.ts";
import type { SandboxFiles } from "../sandbox/port.ts";

/** What is longer is not looked at: a diff of it helps nobody who watches. */
const MOST_BYTES = 128 * 1024;
const MOST_REMEMBERED = 16;

type FileRef = Extract<ContentPart, { type: "file_ref" }>;

/**
 * What files held before a tool overwrites them. Few agents say it, so a file is read when the call is heard. A tool
 * that was faster leaves only what an earlier tool's file is remembered as; where that fails too, nothing is said.
 */
export class EarlierTexts {
  readonly #files: SandboxFiles;
  readonly #hide: (text: string) => string;
  /** What open calls overwrite, by the id of their item. */
  readonly #calls = new Map<string, readonly FileRef[]>();
  /** The files that tools touched last. */
  readonly #remembered = new Map<string, string>();

  constructor(files: SandboxFiles, hide: (text: string) => string) {
    this.#files = files;
    this.#hide = hide;
  }

  /** The same facts, with a diff where a file is overwritten that was there before. */
  async shownIn(facts: readonly HarnessFact[]): Promise<readonly HarnessFact[]> {
    const shown: HarnessFact[] = [];
    for (const fact of facts) {
      if (!isToolItem(fact)) shown.push(fact);
      else shown.push({ ...fact, data: { item: await this.#show(fact.data.item) } });
    }
    return shown;
  }

  /** What is open is closed with the turn. */
  forgetCalls(): void {
    this.#calls.clear();
  }

  #show(item: Item): Promise<Item> {
    return item.kind === "tool_call" ? this.#showCall(item) : this.#showResult(item);
  }

  async #showCall(item: Item): Promise<Item> {
    const refs: FileRef[] = [];
    for (const { path, text } of writesOf(item)) {
      const before = await this.#before(path, text);
      if (before === undefined) continue;
      refs.push({ type: "file_ref", path, action: "write", diff: this.#diff(path, before, text) });
    }
    if (refs.length === 0) return item;
    this.#calls.set(item.item_id, refs);
    const told = new Set(fileRefsOf(item).map(({ path }) => path));
    return { ...item, content: [...item.content, ...refs.filter(({ path }) => !told.has(path))] };
  }

  async #showResult(item: Item): Promise<Item> {
    const known = this.#calls.get(item.parent_id ?? "") ?? [];
    this.#calls.delete(item.parent_id ?? "");
    for (const { path } of fileRefsOf(item)) await this.#remember(path);
    if (item.status === "failed" || known.length === 0) return item;
    return {
      ...item,
      content: item.content.map((part) => {
        // An agent that calls it a new file did not look.
        if (part.type !== "file_ref" || (part.diff && !part.diff.startsWith("--- /dev/null"))) return part;
        return known.find(({ path }) => path === part.path) ?? part;
      }),
    };
  }

  async #before(path: string, text: string): Promise<string | undefined> {
    const now = await this.#read(path);
    if (now !== undefined && now !== text) return now;
    const remembered = now === undefined ? undefined : this.#remembered.get(path);
    return remembered === text ? undefined : remembered;
  }

  #diff(path: string, before: string, after: string): string {
    return this.#hide(toUnifiedDiff(path, before, after));
  }

  async #remember(path: string): Promise<void> {
    this.#remembered.delete(path);
    const text = await this.#read(path);
    if (text === undefined) return;
    this.#remembered.set(path, text);
    for (const [oldest] of this.#remembered) {
      if (this.#remembered.size <= MOST_REMEMBERED) return;
      this.#remembered.delete(oldest);
    }
  }

  /** Undefined where there is no file, or none that can be shown. */
  async #read(path: string): Promise<string | undefined> {
    try {
      const { entryType, size } = await this.#files.stat(path);
      if (entryType !== "file" || size > MOST_BYTES) return undefined;
      const bytes = await this.#files.read(path);
      return bytes.includes(0) ? undefined : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      return undefined;
    }
  }
}

/** A tool was called, or has answered. */
export function isToolItem(fact: HarnessFact): fact is Extract<HarnessFact, { type: "item.completed" }> {
  if (fact.type !== "item.completed") return false;
  const { kind } = fact.data.item;
  return kind === "tool_call" || kind === "tool_result";
}

function fileRefsOf(item: Item): FileRef[] {
  return item.content.filter((part) => part.type === "file_ref");
}

/** The files that a call writes whole, and what it writes. */
function writesOf(item: Item): { path: string; text: string }[] {
  const call = item.content.find((part) => part.type === "tool_call");
  if (!call || !WRITERS.has(commonToolName(call.name)) || call.arguments.length > 2 * MOST_BYTES) return [];
  const input = parse(call.arguments);
  const changes = Array.isArray(input["changes"]) ? input["changes"].map(toFields) : [];
  if (changes.length > 0) return changes.flatMap(toAdded);
  const path = PATHS.map((key) => input[key]).find((value) => typeof value === "string");
  const text = TEXTS.map((key) => input[key]).find((value) => typeof value === "string");
  return typeof path === "string" && typeof text === "string" ? [{ path, text }] : [];
}

const WRITERS = new Set(["write", "create_file", "edit"]);
const PATHS = ["file_path", "filePath", "path", "target_file"];
const TEXTS = ["content", "contents", "file_text"];

/** Codex says "add" of every file that it writes whole. */
function toAdded({ path, kind, diff }: Fields): { path: string; text: string }[] {
  const type = typeof kind === "string" ? kind : toFields(kind)["type"];
  return type === "add" && typeof path === "string" && typeof diff === "string" ? [{ path, text: diff }] : [];
}

type Fields = Readonly<Record<string, unknown>>;

function parse(text: string): Fields {
  try {
    return toFields(JSON.parse(text));
  } catch {
    return {};
  }
}

function toFields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
