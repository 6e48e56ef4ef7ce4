import type { Usage } from "../contract/index.ts";
import type { Ask } from "./ask.ts";
import type { ModelFailure } from "./failure.ts";
import { toAnswerUsage } from "./usage.ts";

/** What the model answers, whatever the wire that carries it. */
export interface Answer {
  /** From the conversation's position: a request that is sent again gets the same. */
  readonly id: string;
  readonly parts: readonly Part[];
  readonly stop: "end" | "calls" | "refusal";
  readonly usage: AnswerUsage;
}

export type Part =
  | { readonly do: "say" | "think"; readonly deltas: readonly Delta[] }
  | { readonly do: "call"; readonly call: ToolCall }
  | { readonly do: "pause"; readonly ms: number }
  | { readonly do: "break"; readonly how: Break };

export type Delta = string | Break;

/** Where the stream goes wrong: it ends, holds a line that is no JSON, or says that the model failed. */
export type Break =
  | { readonly fault: "cut" }
  | { readonly fault: "garbage" }
  | { readonly fault: "failed"; readonly failure: ModelFailure };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly namespace?: string;
  /** A text for a tool that takes plain text. */
  readonly input: Readonly<Record<string, unknown>> | string;
  /** The search for tools that the client holds back, which has a shape of its own on some wires. */
  readonly search?: boolean;
}

/** `input` is what no cache had; `reasoning` is a part of `output`. */
export interface AnswerUsage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly reasoning: number;
}

/** Leaves out thoughts that were not asked for. */
export function toAnswer(
  ask: Ask,
  given: { id: string; parts: readonly Part[]; stop?: Answer["stop"]; usage?: Usage },
): Answer {
  const parts = given.parts.filter((part) => ask.thinks || part.do !== "think");
  const stop = given.stop ?? (parts.some((part) => part.do === "call") ? "calls" : "end");
  return { id: given.id, parts, stop, usage: toAnswerUsage(ask, parts, given.usage) };
}

export function textOf(deltas: readonly Delta[]): string {
  return deltas.filter((delta) => typeof delta === "string").join("");
}
