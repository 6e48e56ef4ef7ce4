import { isAbsolute, join } from "node:path";
import type { Step } from "../scripted-agent/step.ts";
import type { Ask } from "./ask.ts";
import type { Scene } from "./tools/native.ts";

/** `before`: the script's steps before this round. */
export function toScene(ask: Ask, before: readonly Step[]): Scene {
  const workspace = findWorkspace(ask);
  const results = ask.entries.flatMap((entry) => (entry.by === "tool" ? entry.texts : []));
  return {
    ask,
    path: (path) => resolvePath(workspace, path),
    contents: [...results, ...writtenBy(before)],
  };
}

/** The contents of the files that these steps write. */
function writtenBy(steps: readonly Step[]): string[] {
  const files = new Map<string, string>();
  const apply = (step: Step): void => {
    if (step.do === "parallel") for (const branch of step.steps) apply(branch);
    if (step.do === "ask") apply(step.tool);
    if (step.do === "write") files.set(step.path, step.content);
    if (step.do === "edit")
      files.set(
        step.path,
        (files.get(step.path) ?? "").replace(step.old, () => step.new),
      );
  };
  for (const step of steps) apply(step);
  return [...files.values()];
}

/** The client's working folder, as its prompts name it. Some clients' tools take absolute paths only. */
export function findWorkspace(ask: Ask): string | undefined {
  const texts = [ask.system, ...ask.entries.flatMap((entry) => (entry.by === "user" ? entry.texts : []))];
  for (const text of texts) {
    for (const pattern of WORKSPACE_PATTERNS) {
      const found = pattern.exec(text)?.[1];
      if (found !== undefined) return found.trim();
    }
  }
  return undefined;
}

export function resolvePath(workspace: string | undefined, path: string): string {
  return workspace === undefined || isAbsolute(path) ? path : join(workspace, path);
}

const WORKSPACE_PATTERNS = [
  /(?:Primary w|\bW)orking directory: (\/[^\n]*)/,
  /<cwd>(\/[^<\n]*)<\/cwd>/,
  /Workspace Path: (\/[^\n]*)/,
  /Workspace Directories:\**\s*-\s+(\/[^\n]*)/,
  /working in the directory: (\/[^\n]*)/,
];
