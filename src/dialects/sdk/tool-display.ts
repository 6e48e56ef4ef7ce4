import { own } from "../../contract/index.ts";
import { toFields } from "../shared/text.ts";
import type { DiffContent, ToolCallContent, ToolCallLocation, ToolKind } from "./events.ts";

/** A tool call as people see it: a title, a category, its changes and its files. */
export interface ToolDisplay {
  readonly title: string;
  readonly kind: ToolKind;
  readonly content?: readonly ToolCallContent[];
  readonly locations?: readonly ToolCallLocation[];
}

/** The display of a tool call, independent of the agent's own names for tools and arguments. */
export function toToolDisplay(name: string, input: unknown): ToolDisplay {
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  if (server !== undefined && tool !== undefined) return { title: `${server}: ${tool}`, kind: "other" };
  const fields = toFields(input);
  const toDisplay = own(DISPLAYS, name.toLowerCase());
  return toDisplay ? toDisplay(fields) : { title: text(fields["title"]) || name, kind: "other" };
}

/** Whether a call only sets the plan, which has its own event. */
export function isPlanTool(name: string): boolean {
  return PLAN_TOOLS.has(name.toLowerCase());
}

const PLAN_TOOLS = new Set([
  "todowrite",
  "todo_write",
  "update_plan",
  "todo_list",
  "taskcreate",
  "taskupdate",
]);

type Fields = Readonly<Record<string, unknown>>;
type ToDisplay = (fields: Fields) => ToolDisplay;

const execute: ToDisplay = (fields) => {
  const { command } = fields;
  const words = Array.isArray(command) ? command.map(String).join(" ") : text(command);
  return { title: words === "" ? "Terminal" : `\`${words.replaceAll("`", "\\`")}\``, kind: "execute" };
};

const read: ToDisplay = (fields) => {
  const path = pathOf(fields);
  const offset = count(fields["offset"]);
  const limit = count(fields["limit"]);
  return {
    title: path === "" ? "Read File" : `Read ${path}${toRange(offset, limit)}`,
    kind: "read",
    ...located(path, offset),
  };
};

function toRange(offset: number | undefined, limit: number | undefined): string {
  const from = offset ?? 1;
  if (limit !== undefined) return ` (${from} - ${from + limit - 1})`;
  return offset === undefined ? "" : ` (from line ${from})`;
}

const edit: ToDisplay = (fields) => {
  const path = pathOf(fields);
  const pairs = Array.isArray(fields["edits"]) ? fields["edits"].map(toFields) : [fields];
  const content = pairs.flatMap((pair): DiffContent[] => {
    const before = pair["old_string"] ?? pair["oldString"] ?? pair["old"] ?? pair["old_source"];
    const after = pair["new_string"] ?? pair["newString"] ?? pair["new"] ?? pair["new_source"];
    if (typeof after !== "string" || path === "") return [];
    return [{ type: "diff", path, oldText: typeof before === "string" ? before : null, newText: after }];
  });
  const title = path === "" ? "Edit" : `Edit \`${path}\``;
  return { title, kind: "edit", ...shown(content), ...located(path) };
};

const write: ToDisplay = (fields) => {
  const path = pathOf(fields);
  const newText = fields["content"] ?? fields["contents"] ?? fields["file_text"];
  const content: DiffContent[] =
    typeof newText === "string" && path !== "" ? [{ type: "diff", path, oldText: null, newText }] : [];
  return {
    title: path === "" ? "Write" : `Write ${path}`,
    kind: "edit",
    ...shown(content),
    ...located(path),
  };
};

const patch: ToDisplay = (fields) => {
  const changes = (Array.isArray(fields["changes"]) ? fields["changes"] : []).map(toFields);
  const paths = changes.map((change) => text(change["path"])).filter((path) => path !== "");
  const content = changes.flatMap(fromChange);
  const title = paths.length === 0 ? "Edit" : `Edit ${paths.map((path) => `\`${path}\``).join(", ")}`;
  const locations = paths.map((path) => ({ path }));
  return { title, kind: "edit", ...shown(content), ...(locations.length === 0 ? {} : { locations }) };
};

const remove: ToDisplay = (fields) => {
  const path = pathOf(fields);
  return { title: `Delete \`${path}\``, kind: "delete", ...located(path) };
};

const search =
  (verb: string): ToDisplay =>
  (fields) => {
    const path = pathOf(fields);
    const pattern = text(fields["pattern"] ?? fields["query"] ?? fields["glob_pattern"]);
    const words = [path, pattern].filter((word) => word !== "").map((word) => `\`${word}\``);
    return { title: [verb, ...words].join(" "), kind: "search", ...located(path) };
  };

const webFetch: ToDisplay = (fields) => {
  const url = text(fields["url"]);
  return { title: url === "" ? text(fields["title"]) || "Fetch" : `Fetch ${url}`, kind: "fetch" };
};

const webSearch: ToDisplay = (fields) => {
  const query = text(fields["query"] ?? fields["search_term"]);
  return { title: query === "" ? "Web search" : `"${query}"`, kind: "fetch" };
};

const think: ToDisplay = (fields) => {
  const title = text(fields["description"]) || text(fields["name"]) || text(fields["title"]);
  return { title: title || text(fields["prompt"]).split("\n")[0] || "Task", kind: "think" };
};

/** The displays, each with the names of its tools in all agents, in lower case. */
const NAMED_DISPLAYS: readonly (readonly [ToDisplay, ...string[]])[] = [
  [
    execute,
    "bash",
    "shell",
    "exec_command",
    "local_shell",
    "run_shell_command",
    "run_terminal_cmd",
    "run_terminal_command",
  ],
  [() => ({ title: "Tail Logs", kind: "execute" }), "bashoutput", "taskoutput"],
  [() => ({ title: "Write to the terminal", kind: "execute" }), "write_stdin"],
  [() => ({ title: "Kill Process", kind: "execute" }), "killshell", "killbash", "taskstop"],
  [read, "read", "read_file", "notebookread", "view_image"],
  [edit, "edit", "multiedit", "replace", "search_replace", "notebookedit"],
  [write, "write", "write_file", "create_file"],
  [patch, "apply_patch"],
  [remove, "delete", "delete_file"],
  [search("Find"), "glob"],
  [search("grep"), "grep", "grep_search", "search_file_content"],
  [search("List"), "ls", "list", "list_dir", "list_directory"],
  [webFetch, "webfetch", "web_fetch"],
  [webSearch, "websearch", "web_search", "google_web_search"],
  [think, "task", "agent", "subagent", "spawnagent", "spawn_agent"],
  [() => ({ title: "Ready to code?", kind: "switch_mode" }), "exitplanmode", "exit_plan_mode"],
];

const DISPLAYS: Readonly<Record<string, ToDisplay>> = Object.fromEntries(
  NAMED_DISPLAYS.flatMap(([toDisplay, ...names]) => names.map((name) => [name, toDisplay])),
);

/** Codex lists the change of each file: hunks for an update, the content for a new or deleted file. */
function fromChange(change: Fields): DiffContent[] {
  const path = text(change["path"]);
  const { kind, diff } = change;
  if (path === "" || typeof diff !== "string") return [];
  const type = typeof kind === "string" ? kind : toFields(kind)["type"];
  if (type === "add" && !diff.startsWith("---"))
    return [{ type: "diff", path, oldText: null, newText: diff }];
  if (type === "delete" && !diff.startsWith("---"))
    return [{ type: "diff", path, oldText: diff, newText: "" }];
  return [{ type: "diff", path, ...fromUnifiedDiff(diff) }];
}

function pathOf(fields: Fields): string {
  for (const key of ["file_path", "filePath", "path", "absolute_path", "target_file", "notebook_path"]) {
    const value = fields[key];
    if (typeof value === "string") return value;
  }
  return "";
}

function located(path: string, line?: number): { locations?: ToolCallLocation[] } {
  if (path === "") return {};
  return { locations: [line === undefined ? { path } : { path, line }] };
}

function shown(content: readonly ToolCallContent[]): { content?: readonly ToolCallContent[] } {
  return content.length === 0 ? {} : { content };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : undefined;
}

/** The texts before and after a unified diff, as far as its hunks show them. */
export function fromUnifiedDiff(diff: string): { oldText: string | null; newText: string } {
  const { hunks, isNew } = parseHunks(diff);
  const oldText = isNew ? null : hunks.flatMap(({ before }) => before).join("");
  return { oldText, newText: hunks.flatMap(({ after }) => after).join("") };
}

/** The whole old text from a diff and the whole new text; undefined if they do not match. */
export function undoUnifiedDiff(diff: string, newText: string): string | undefined {
  const { hunks } = parseHunks(diff);
  const lines = newText.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  for (const { at, before, after } of hunks.toReversed()) {
    if (after.some((line, index) => lines[at + index] !== line)) return undefined;
    lines.splice(at, after.length, ...before);
  }
  return hunks.length === 0 ? undefined : lines.join("");
}

interface Hunk {
  /** The index of the hunk's first line in the new text. */
  readonly at: number;
  readonly before: string[];
  readonly after: string[];
}

function parseHunks(diff: string): { hunks: readonly Hunk[]; isNew: boolean } {
  const hunks: Hunk[] = [];
  /** The texts to which the last line was added. */
  let last: string[][] = [];
  let isNew = false;
  for (const line of diff.split("\n")) {
    const hunk = hunks.at(-1);
    if (line.startsWith("@@")) {
      hunks.push({ at: startOf(line), before: [], after: [] });
      continue;
    }
    if (!hunk) {
      if (line.startsWith("--- /dev/null")) isNew = true;
      continue;
    }
    const [sign, text] = [line[0], line.slice(1)];
    if (sign === "\\") for (const lines of last) cutNewline(lines);
    last = sidesOf(hunk, sign);
    for (const lines of last) lines.push(`${text}\n`);
  }
  return { hunks, isNew };
}

/** The texts that a line of a hunk belongs to, by its first character. */
function sidesOf({ before, after }: Hunk, sign: string | undefined): string[][] {
  if (sign === " ") return [before, after];
  if (sign === "-") return [before];
  return sign === "+" ? [after] : [];
}

/** The index of a hunk's first line in the new text. The header of an empty range has the line before it. */
function startOf(header: string): number {
  const [, start = "1", count] = /\+(\d+)(?:,(\d+))?/.exec(header) ?? [];
  return count === "0" ? Number(start) : Number(start) - 1;
}

function cutNewline(lines: string[]): void {
  const text = lines.pop();
  if (text !== undefined) lines.push(text.replace(/\n$/, ""));
}
