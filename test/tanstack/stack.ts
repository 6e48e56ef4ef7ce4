import type { TanStackHandle, TanStackProvider } from "../../src/tanstack/sandbox/index.ts";
import { type RequiredClient, requireClient } from "../support/clients.ts";

/** The compared fields of a chunk of either stack. */
export interface Chunk {
  readonly type: string;
  readonly name?: string;
  readonly value?: unknown;
  readonly messageId?: string;
  readonly delta?: string;
  readonly toolCallId?: string;
  readonly toolCallName?: string;
  readonly content?: string;
  readonly runId?: string;
  readonly metadata?: { readonly sluice?: { readonly offset: string } };
}

interface Definition {
  ensure(context: { threadId: string; runId: string }): Promise<TanStackHandle>;
  destroy(context: { threadId: string; runId: string }): Promise<void>;
}

/** TanStack's own server stack with its own harness adapter: the reference. Of its types only what the tests need. */
export interface Stack {
  chat(options: object): AsyncIterable<Chunk>;
  toolDefinition(options: object): { server(run: (input: never, context?: ToolContext) => unknown): object };
  defineSandbox(options: { id: string; provider: TanStackProvider } & Record<string, unknown>): Definition;
  defineWorkspace(options: object): object;
  withSandbox(definition: Definition): object;
  claudeCodeText(model: string, options?: object): object;
}

export interface ToolContext {
  emitCustomEvent(name: string, value: Record<string, unknown>): void;
}

export type RequiredStack = { readonly stack: Stack; readonly folder: string } | { readonly reason: string };

export async function requireStack(): Promise<RequiredStack> {
  const { client, reason }: RequiredClient = requireClient("tanstack-0.42");
  if (client === undefined) return { reason };
  const names = ["@tanstack/ai", "@tanstack/ai-sandbox", "@tanstack/ai-claude-code"];
  const modules = await Promise.all(names.map((name) => client.load(name)));
  return { stack: Object.assign({}, ...modules) as Stack, folder: client.folder };
}

/** The name of a chunk in a sequence. */
export function nameOf({ type, name = "" }: Chunk): string {
  return type === "CUSTOM" ? name : type;
}

export async function collect(stream: AsyncIterable<unknown>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk as Chunk);
  return chunks;
}
