import { readFileSync, statSync } from "node:fs";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { toUnifiedDiff } from "../../text/unified-diff.ts";
import type { AgentFile } from "../protocol.ts";
import type { ToolOutcome } from "./calls.ts";

// The file tools. The agent runs in the workspace, so that relative paths start there.

export async function writeTool(path: string, content: string): Promise<ToolOutcome> {
  const file = foreseenWrite(path, content) ?? { path, action: "write" };
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
  const bytes = Buffer.byteLength(content);
  return { output: `Wrote ${bytes} bytes to ${path}`, file };
}

/**
 * The change that a write makes to an existing text file; undefined if the text stays the same, or no such file exists.
 */
export function foreseenWrite(path: string, content: string): AgentFile | undefined {
  const before = readTextSync(path);
  if (before === undefined || before === content) return undefined;
  return { path, action: "write", diff: toUnifiedDiff(path, before, content) };
}

export async function editTool(path: string, edit: { old: string; new: string }): Promise<ToolOutcome> {
  if (edit.old === "") throw new Error(`Cannot edit ${path}: the text to replace is empty`);
  const before = await readFile(path, "utf8");
  const at = before.indexOf(edit.old);
  if (at === -1) throw new Error(`Cannot edit ${path}: the text to replace is not in it`);
  const after = before.slice(0, at) + edit.new + before.slice(at + edit.old.length);
  await writeFile(path, after);
  const diff = toUnifiedDiff(path, before, after);
  return { output: `Edited ${path}`, file: { path, action: "patch", diff } };
}

export async function readTool(path: string): Promise<ToolOutcome> {
  return { output: await readFile(path, "utf8"), file: { path, action: "read" } };
}

export async function deleteTool(path: string): Promise<ToolOutcome> {
  const found = await stat(path);
  if (found.isDirectory()) throw new Error(`Cannot delete ${path}: it is a folder`);
  await rm(path);
  return { output: `Deleted ${path}` };
}

/** Larger files get no diff. */
const MAX_DIFF_BYTES = 256 * 1024;

function readTextSync(path: string): string | undefined {
  try {
    const found = statSync(path);
    if (!found.isFile() || found.size > MAX_DIFF_BYTES) return undefined;
    const bytes = readFileSync(path);
    return bytes.includes(0) ? undefined : bytes.toString("utf8");
  } catch {
    return undefined;
  }
}
