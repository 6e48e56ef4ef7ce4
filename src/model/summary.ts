import type { Cue } from "./cue.ts";

/** Reads what `toSummary` wrote of the script, from wherever the client put the summary. */
export function readProgress(text: string): { script?: string; done: number } | undefined {
  const mark = MARK.exec(text);
  if (mark === null) return undefined;
  const [, done = "0", script = ""] = mark;
  if (script === "") return { done: Number(done) };
  return { done: Number(done), script: Buffer.from(script, "base64url").toString("utf8") };
}

/**
 * The summary that replaces a history. It carries a script that is not over, so that it can go on behind it,
 * encoded: a second reader of the summary must not take it for a prompt.
 */
export function toSummary(cue: Cue): string {
  const isOver = cue.kind === "plain" || cue.done >= cue.rounds.length;
  const mark = isOver ? "[script: none]" : `[script: ${cue.done} ${toCode(cue.script)}]`;
  return `A scripted conversation so far. ${mark} ${PADDING}`;
}

/** Grok Build takes a summary of less than 500 characters for a failure. */
const PADDING = "There is nothing more to remember of it than that. ".repeat(12).trim();

function toCode(script: string): string {
  return Buffer.from(script, "utf8").toString("base64url");
}

const MARK = /\[script: (?:none|(\d+) ([\w-]+))\]/;
