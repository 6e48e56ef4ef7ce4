import { isAbsolute, join } from "node:path";
import type { Ask } from "./ask.ts";

/** Where the client says that it works; some of their tools take absolute paths only. */
export function findWorkspace(ask: Ask): string | undefined {
  const texts = [ask.system, ...ask.entries.flatMap((entry) => (entry.by === "user" ? entry.texts : []))];
  for (const text of texts) {
    for (const pattern of PATTERNS) {
      const found = pattern.exec(text)?.[1];
      if (found !== undefined) return found.trim();
    }
  }
  return undefined;
}

export function resolvePath(workspace: string | undefined, path: string): string {
  return workspace === undefined || isAbsolute(path) ? path : join(workspace, path);
}

const PATTERNS = [
  /(?:Primary w|\bW)orking directory: (\/[^\n]*)/,
  /<cwd>(\/[^<\n]*)<\/cwd>/,
  /Workspace Path: (\/[^\n]*)/,
  /Workspace Directories:\**\s*-\s+(\/[^\n]*)/,
  /working in the directory: (\/[^\n]*)/,
];
