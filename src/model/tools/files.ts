import type { BareToolStep } from "../../scripted-agent/step.ts";
import { type Calling, callNative, callShell, type Input, type Native, quote, type Scene } from "./native.ts";

type FileStep = Extract<BareToolStep, { path: string }>;
type Write = Extract<FileStep, { content: string }>;
type Edit = Extract<FileStep, { old: string }>;
type Path = Exclude<FileStep, Write | Edit>;

export function callFileTool(step: FileStep, scene: Scene): Calling | undefined {
  if (step.do === "read")
    return callNative(READS, step, scene) ?? callShell(`cat ${quote(step.path)}`, scene);
  if (step.do === "delete" && !hasPatch(scene)) return callShell(`rm -- ${quote(step.path)}`, scene);
  // Codex without its patch tool takes a patch as a shell command.
  return callChange(step, scene) ?? callShell(`apply_patch <<'PATCH'\n${toPatch(step, scene)}\nPATCH`, scene);
}

function callChange(step: FileStep, scene: Scene): Calling | undefined {
  if (step.do === "write") return callNative(WRITES, step, scene);
  return step.do === "edit" ? callNative(EDITS, step, scene) : callNative(PATCHES, step, scene);
}

function hasPatch(scene: Scene): boolean {
  return scene.ask.tools.some(({ name }) => name === "apply_patch" || name === "exec_command");
}

const PATCHES: readonly Native<FileStep>[] = [
  { tool: "apply_patch", input: (step, scene): Input => toPatch(step, scene) },
];

const WRITES: readonly Native<Write>[] = [
  { tool: "Write", input: toWrite },
  { tool: "write", input: toWrite },
  { tool: "write_file", input: toWrite },
  { tool: "mcp__sluice__write", input: ({ path, content }) => ({ file_path: path, content }) },
  ...PATCHES,
];

const EDITS: readonly Native<Edit>[] = [
  { tool: "Edit", input: toEdit },
  { tool: "edit", input: toEdit },
  { tool: "replace", input: toEdit },
  { tool: "search_replace", input: toEdit },
  {
    tool: "mcp__sluice__edit",
    input: ({ path, old, new: replacement }) => ({
      file_path: path,
      old_string: old,
      new_string: replacement,
    }),
  },
  ...PATCHES,
];

const READS: readonly Native<Path>[] = [
  { tool: "Read", input: ({ path }, scene) => toPath(path, scene) },
  { tool: "read", input: ({ path }, scene) => toPath(path, scene) },
  { tool: "read_file", input: ({ path }, scene) => toPath(path, scene) },
  { tool: "mcp__sluice__read", input: ({ path }) => ({ file_path: path }) },
];

function toWrite({ path, content }: Write, scene: Scene): Input {
  return { ...toPath(path, scene), content };
}

function toEdit(step: Edit, scene: Scene): Input {
  return {
    ...toPath(step.path, scene),
    instruction: "Replace a text",
    old_string: step.old,
    new_string: step.new,
    oldString: step.old,
    newString: step.new,
  };
}

function toPath(given: string, scene: Scene) {
  const path = scene.path(given);
  return { file_path: path, filePath: path, target_file: path };
}

function toPatch(step: FileStep, { contents }: Scene): string {
  if (step.do === "write") return toAddPatch(step.path, step.content);
  return step.do === "edit" ? toEditPatch(step, contents) : toDeletePatch(step.path);
}

// Patches in the language of `apply_patch`, which knows whole lines only.

function toAddPatch(path: string, content: string): string {
  return joinPatch([`*** Add File: ${path}`, ...linesOf(content).map((line) => `+${line}`)]);
}

function toDeletePatch(path: string): string {
  return joinPatch([`*** Delete File: ${path}`]);
}

/** `contents`: known contents of files. They give the whole of a line that the edit names only in part. */
function toEditPatch(edit: { path: string; old: string; new: string }, contents: readonly string[]): string {
  const whole = contents.map((content) => widen(edit, content)).findLast((found) => found !== undefined);
  const { old, new: replacement } = whole ?? edit;
  const removed = linesOf(old).map((line) => `-${line}`);
  const added = replacement === "" ? [] : linesOf(replacement).map((line) => `+${line}`);
  return joinPatch([`*** Update File: ${edit.path}`, "@@", ...removed, ...added]);
}

/** Extends an edit to whole lines; undefined if the content does not have the old text. */
function widen(
  edit: { old: string; new: string },
  content: string,
): { old: string; new: string } | undefined {
  const at = content.indexOf(edit.old);
  if (edit.old === "" || at === -1) return undefined;
  const before = content.slice(content.lastIndexOf("\n", at - 1) + 1, at);
  const end = at + edit.old.length;
  const lineEnd = content.indexOf("\n", edit.old.endsWith("\n") ? end - 1 : end);
  const after = content.slice(end, lineEnd === -1 ? undefined : Math.max(end, lineEnd));
  return { old: before + edit.old + after, new: before + edit.new + after };
}

function joinPatch(lines: readonly string[]): string {
  return ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");
}

function linesOf(text: string): string[] {
  return text.replace(/\n$/, "").split("\n");
}
