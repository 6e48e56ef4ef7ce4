import type { Usage } from "../contract/index.ts";
import type { Ask } from "./ask.ts";

/** The model's answer, independent of the wire. */
export interface Answer {
  /** Derived from the history: a repeated request gets the same id. */
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

/** A scripted fault within an answer: a cut connection, a line that is no JSON, or a failure of the model. */
export type Break =
  | { readonly fault: "cut" }
  | { readonly fault: "garbage" }
  | { readonly fault: "failed"; readonly failure: ModelFailure };

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly namespace?: string;
  /** A string if the tool takes plain text. */
  readonly input: Readonly<Record<string, unknown>> | string;
  /** Whether the call searches for tools that the client holds back. Some wires have a special shape for it. */
  readonly search?: boolean;
}

/** The arguments of a call as an object. */
export function inputOf({ input }: ToolCall): Readonly<Record<string, unknown>> {
  return typeof input === "string" ? { input } : input;
}

/** `input` excludes cached tokens; `output` includes `reasoning`. */
export interface AnswerUsage {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly reasoning: number;
}

/** Builds an answer. Thoughts are left out if the request does not want them. */
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

/** The script's usage; counts that it lacks are estimated at four characters per token. */
function toAnswerUsage(ask: Ask, parts: readonly Part[], given: Usage = {}): AnswerUsage {
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

/** A text in the given number of pieces, or in one piece per word. */
export function toDeltas(text: string, chunks?: number): string[] {
  if (text === "") return [];
  if (chunks === undefined) return text.match(/^\s+$|\s*\S+(?:\s+$)?/g) ?? [text];
  const characters = Array.from(text);
  const count = Math.min(chunks, characters.length);
  const edge = (index: number): number => Math.floor((index * characters.length) / count);
  return Array.from({ length: count }, (_, index) => characters.slice(edge(index), edge(index + 1)).join(""));
}

export function toFlood(events: number, bytes: number): string[] {
  return Array.from({ length: events }, (_, index) => `${index} `.padEnd(bytes, "~").slice(0, bytes));
}

/** A JSON text in pieces, as models give the arguments of a call. */
export function toPieces(text: string, size = 24): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
    text.slice(index * size, (index + 1) * size),
  );
}

/**
 * The id of a call, which contains the id of its answer. Clients send call ids back, so the rounds of a history can be
 * counted by them. `aside`: a call outside of the script, such as a search for a tool.
 */
export function toCallId(answer: string, ordinal: number, options: { aside?: boolean } = {}): string {
  return `${answer}_${options.aside === true ? "x" : "n"}${ordinal}`;
}

/** The id of the answer that made a call. */
export function roundOf(id: string): string | undefined {
  return ID.exec(id)?.[1];
}

export function isAside(id: string): boolean {
  return ID.exec(id)?.[2] === "x";
}

const ID = /([0-9a-f]{12})_([nx])\d+$/;

export type ModelFailure =
  | "overloaded"
  | "rate_limited"
  | "bad_gateway"
  | "server_error"
  | "terminal"
  | "unauthorized"
  | "context_length";

/** `message` replaces the usual text of the failure. */
interface FailedAnswer {
  readonly id: string;
  readonly failure: ModelFailure;
  readonly message?: string;
}

export type ModelResponse = Answer | FailedAnswer;
