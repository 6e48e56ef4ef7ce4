import {
  type AnyTool,
  convertSchemaToJsonSchema,
  isStandardSchema,
  parseWithStandardSchema,
  type StreamChunk,
  type ToolExecutionContext,
} from "@tanstack/ai";
import type { ToolReply } from "../contract/index.ts";

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

/** A call of one of the application's own tools, as the stream tells of it. */
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

/** A tool that runs here and now; others are run by whoever the engine asks. */
export function isOwn(
  tool: AnyTool | undefined,
): tool is AnyTool & { execute: NonNullable<AnyTool["execute"]> } {
  return tool?.execute !== undefined && tool.needsApproval !== true;
}

/** Runs the tool in this process; what it tells on the way is told as it happens, and kept with its result. */
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

/** A copy as JSON has it, null for nothing: what is told live is what the log keeps. */
function toJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? "null") as unknown;
}

function toText(output: unknown): string {
  return typeof output === "string" ? output : (JSON.stringify(output) ?? "");
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
