import { own } from "../../contract/index.ts";
import type { DiffContent, ToolCallContent, ToolCallLocation, ToolKind } from "../sdk/output-event.ts";
import { toFields } from "./text.ts";
import { fromUnifiedDiff } from "./unified-diff.ts";

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
  const from = offset ?? 1;
  const range =
    limit === undefined
      ? offset === undefined
        ? ""
        : ` (from line ${from})`
      : ` (${from} - ${from + limit - 1})`;
  return {
    title: path === "" ? "Read File" : `Read ${path}${range}`,
    kind: "read",
    ...located(path, offset),
  };
};

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

const fetched: ToDisplay = (fields) => {
  const url = text(fields["url"]);
  return { title: url === "" ? text(fields["title"]) || "Fetch" : `Fetch ${url}`, kind: "fetch" };
};

const searched: ToDisplay = (fields) => {
  const query = text(fields["query"] ?? fields["search_term"]);
  return { title: query === "" ? "Web search" : `"${query}"`, kind: "fetch" };
};

const think: ToDisplay = (fields) => {
  const title = text(fields["description"]) || text(fields["name"]) || text(fields["title"]);
  return { title: title || text(fields["prompt"]).split("\n")[0] || "Task", kind: "think" };
};

/** The displays by the name of the tool in any agent, in lower case. */
const DISPLAYS: Readonly<Record<string, ToDisplay>> = {
  bash: execute,
  shell: execute,
  exec_command: execute,
  local_shell: execute,
  run_shell_command: execute,
  run_terminal_cmd: execute,
  run_terminal_command: execute,
  bashoutput: () => ({ title: "Tail Logs", kind: "execute" }),
  taskoutput: () => ({ title: "Tail Logs", kind: "execute" }),
  write_stdin: () => ({ title: "Write to the terminal", kind: "execute" }),
  killshell: () => ({ title: "Kill Process", kind: "execute" }),
  killbash: () => ({ title: "Kill Process", kind: "execute" }),
  taskstop: () => ({ title: "Kill Process", kind: "execute" }),
  read,
  read_file: read,
  notebookread: read,
  view_image: read,
  edit,
  multiedit: edit,
  replace: edit,
  search_replace: edit,
  notebookedit: edit,
  write,
  write_file: write,
  create_file: write,
  apply_patch: patch,
  delete: remove,
  delete_file: remove,
  glob: search("Find"),
  grep: search("grep"),
  grep_search: search("grep"),
  search_file_content: search("grep"),
  ls: search("List"),
  list: search("List"),
  list_dir: search("List"),
  list_directory: search("List"),
  webfetch: fetched,
  web_fetch: fetched,
  websearch: searched,
  web_search: searched,
  google_web_search: searched,
  task: think,
  agent: think,
  subagent: think,
  spawnagent: think,
  spawn_agent: think,
  exitplanmode: () => ({ title: "Ready to code?", kind: "switch_mode" }),
  exit_plan_mode: () => ({ title: "Ready to code?", kind: "switch_mode" }),
};

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
