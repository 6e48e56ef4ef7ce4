import type { Step } from "../harness/scripted/agent/step.ts";
import type { Ask } from "./ask.ts";
import type { Scene } from "./tools/native.ts";
import { findWorkspace, resolvePath } from "./workspace.ts";

/** `before`: the steps that the script has behind it. */
export function toScene(ask: Ask, before: readonly Step[]): Scene {
  const workspace = findWorkspace(ask);
  const results = ask.entries.flatMap((entry) => (entry.by === "tool" ? entry.texts : []));
  return {
    ask,
    path: (path) => resolvePath(workspace, path),
    contents: [...results, ...writtenBy(before)],
  };
}

/** The files as these steps leave them. */
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
