import type { Usage } from "../contract/index.ts";
import { type AnswerUsage, type Part, textOf } from "./answer.ts";
import type { Ask } from "./ask.ts";

/** What the script says was used, and an estimate of four characters a token for the rest. */
export function toAnswerUsage(ask: Ask, parts: readonly Part[], given: Usage = {}): AnswerUsage {
  const count = (what: "say" | "think" | "call"): number =>
    toTokens(parts.reduce((sum, part) => sum + (part.do === what ? sizeOf(part) : 0), 0));
  const reasoning = given.reasoning_tokens ?? count("think");
  const output = given.output_tokens ?? Math.max(1, count("say") + count("call") + reasoning);
  return {
    input: given.input_tokens ?? toTokens(ask.bytes),
    output,
    cacheRead: given.cache_read_tokens ?? 0,
    cacheWrite: given.cache_write_tokens ?? 0,
    reasoning: Math.min(reasoning, output),
  };
}

export function toTokens(characters: number): number {
  return Math.ceil(characters / 4);
}

function sizeOf(part: Part): number {
  if (part.do === "say" || part.do === "think") return textOf(part.deltas).length;
  return part.do === "call" ? JSON.stringify(part.call.input).length : 0;
}
