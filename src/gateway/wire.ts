import type { Usage } from "../contract/index.ts";

export const WIRES = ["anthropic", "responses", "chat", "gemini", "bedrock", "vertex"] as const;
/** The HTTP API of a model provider. */
export type WireId = (typeof WIRES)[number];

/** The purpose of a request, as far as it shows. */
export type RequestKind = "turn" | "title" | "compact" | "count" | "probe";

/** Reads requests and answers of one API, and writes its errors. It never changes a byte of either. */
export interface Wire {
  readonly id: WireId;
  readRequest(request: ReadableRequest): RequestFacts;
  /** Takes one event of a stream, or the whole of an answer without a stream. */
  readAnswer(known: AnswerFacts, event: Json): AnswerFacts;
  /** An error in the API's own form. */
  toError(status: number, message: string): Json;
}

export interface ReadableRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: Json;
}

export interface RequestFacts {
  readonly model?: string;
  readonly kind?: RequestKind;
  /** The CLI's own id of the sub-agent that asks. */
  readonly agentId?: string;
  /** The CLI's own session that asks, where main agent and sub-agents have one each. */
  readonly sessionId?: string;
  /** The provider would answer later, on another path. */
  readonly isBackground?: true;
  /** The CLI's own count of its attempts, from 1. */
  readonly attempt?: number;
}

export interface AnswerFacts {
  readonly model?: string;
  /** The provider's id of the answer. */
  readonly responseId?: string;
  readonly usage?: Usage;
  readonly stopReason?: string;
  /** The type of an error within the answer. */
  readonly error?: string;
  /** The event was the last one. */
  readonly isDone?: boolean;
}

export type Json = Readonly<Record<string, unknown>>;

export function asObject(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function asList(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.map(asObject) : [];
}

export function asText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** More tokens than any request has. Sums of greater numbers would not fit into a column of a database. */
const MOST_TOKENS = 1_000_000_000;

/** A count of tokens. A provider's number that is no count is left out. */
export function asCount(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MOST_TOKENS
    ? (value as number)
    : undefined;
}

/** A name from outside: short, and without characters that do not belong into a log. */
export function asName(value: unknown): string | undefined {
  return typeof value === "string" && /^[\w.:/@+-]{1,200}$/.test(value) ? value : undefined;
}

export function headerOf({ headers }: Pick<ReadableRequest, "headers">, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : value?.[0];
}

/** The facts with values. */
export function known<T extends object>(facts: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)) as never;
}

/** Whether a request has tools to work with. One tool may be the form of a side call's answer. */
export function hasTools({ tools }: Json): boolean {
  return Array.isArray(tools) && tools.length > 1;
}

/** Whether a text asks for a title, as the side calls of several CLIs do. */
export function asksForTitle(system: string): boolean {
  return /title generator|generat\w* (?:a |the )?(?:\w+ ){0,3}title/i.test(system.slice(0, 2_000));
}

/** Whether a text asks for a summary of the conversation. */
export function asksForSummary(text: string): boolean {
  return /summariz(?:e|ing) (?:the |this |our )?conversation|state_snapshot|summary of the conversation|context checkpoint compaction/i.test(
    text.slice(-8_000),
  );
}

/** The texts of a content that is a string or a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return asList(content)
    .map((part) => asText(part["text"]) ?? "")
    .join("\n");
}
