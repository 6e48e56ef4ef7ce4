import { mendMcpResults } from "./mcp-results.ts";
import { keepSessionFile } from "./session-file.ts";
import { witness } from "./witness.ts";

/** Loaded into the CLI's process before its own code (`node --import`). */
export const PRELUDE = ".gemini/sluice.mjs";

/** Each part is printed as text, so it uses nothing from outside of itself; none may break the CLI. */
export function preludeFile(): { path: string; content: string } {
  const parts = [keepSessionFile, mendMcpResults, witness];
  return { path: PRELUDE, content: parts.map((part) => `try { (${String(part)})(); } catch {}\n`).join("") };
}
