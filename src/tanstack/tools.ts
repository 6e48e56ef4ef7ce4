import {
  type AnyTool,
  convertSchemaToJsonSchema,
  isStandardSchema,
  parseWithStandardSchema,
  type StreamChunk,
  type ToolExecutionContext,
} from "@tanstack/ai";
import { isRecord, type ToolReply } from "../contract/index.ts";

export interface WireTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: unknown;
}

export function toWireTools(tools: readonly AnyTool[]): WireTool[] {
  return tools.map(({ name, description, inputSchema }) => ({
    name,
    description,
    parameters: (inputSchema && convertSchemaToJsonSchema(inputSchema)) ?? { type: "object" },
  }));
}

/** A call of an application's tool, from the stream. */
export interface RequestedCall {
  readonly requestId: string;
  readonly sessionId: string;
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
}

export function toRequestedCall(chunk: StreamChunk): RequestedCall | undefined {
  if (chunk.type !== "CUSTOM" || chunk.name !== "tool-input-available") return undefined;
  const { value, metadata } = chunk as { value: unknown; metadata?: unknown };
  if (!isRecord(value) || !isRecord(metadata) || !isRecord(metadata["sluice"])) return undefined;
  const { toolCallId, toolName, input } = value;
  const { requestId, sessionId } = metadata["sluice"];
  if (typeof toolCallId !== "string" || typeof toolName !== "string") return undefined;
  if (typeof requestId !== "string" || typeof sessionId !== "string") return undefined;
  return { requestId, sessionId, toolCallId, toolName, input };
}

/** Whether this process can run the tool without approval. TanStack's engine handles the other tools. */
export function runsHere(
  tool: AnyTool | undefined,
): tool is AnyTool & { execute: NonNullable<AnyTool["execute"]> } {
  return tool?.execute !== undefined && tool.needsApproval !== true;
}

/** Runs the tool in this process; its events are emitted at once and kept with its result. */
export async function executeTool(
  tool: AnyTool & { execute: NonNullable<AnyTool["execute"]> },
  call: RequestedCall,
  options: { context: unknown; signal: AbortSignal; emit: (name: string, value: unknown) => void },
): Promise<ToolReply> {
  const events: NonNullable<ToolReply["events"]> = [];
  const context = {
    toolCallId: call.toolCallId,
    abortSignal: options.signal,
    context: options.context,
    emitCustomEvent: (name: string, given: Record<string, unknown>) => {
      const value = toJson(given);
      events.push({ name, value });
      options.emit(name, value);
    },
  } as ToolExecutionContext;
  try {
    const schema = tool.inputSchema;
    const args: unknown =
      schema && isStandardSchema(schema) ? parseWithStandardSchema(schema, call.input) : call.input;
    const output: unknown = await tool.execute(args as never, context as never);
    return { output: toText(output), events };
  } catch (error) {
    return { output: error instanceof Error ? error.message : String(error), isError: true, events };
  }
}

/** A copy through JSON, so that the emitted value equals the one in the log; undefined becomes null. */
function toJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? "null") as unknown;
}

function toText(output: unknown): string {
  return typeof output === "string" ? output : (JSON.stringify(output) ?? "");
}

/** Whether this process cannot run the tool. TanStack's engine then gets the result, and starts a new run with it. */
export function runsElsewhere({ toolName }: RequestedCall, tools: readonly AnyTool[] = []): boolean {
  return !runsHere(tools.find(({ name }) => name === toolName));
}

/** The last chunk of a run that waits for a tool that this process cannot run. */
export function toAwaitingTool({ threadId, runId }: { threadId: string; runId: string }): StreamChunk {
  return {
    type: "RUN_FINISHED",
    threadId,
    runId,
    timestamp: Date.now(),
    metadata: { tanstack: { finishReason: "tool_calls" } },
  } as StreamChunk;
}

export function isAwaitingTool(chunk: StreamChunk): boolean {
  if (chunk.type !== "RUN_FINISHED") return false;
  const { metadata } = chunk as { metadata?: unknown };
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && extras["finishReason"] === "tool_calls";
}
