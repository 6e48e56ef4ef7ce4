import type { AnyTool, StreamChunk } from "@tanstack/ai";
import { isOwn, isRecord, type RequestedCall } from "./tools.ts";

/** A tool that is not run where the stream is read: the engine asks whoever has it, and begins another run with the answer. */
export function isOthers({ toolName }: RequestedCall, tools: readonly AnyTool[] = []): boolean {
  return !isOwn(tools.find(({ name }) => name === toolName));
}

/** How a run ends that waits for such a tool. */
export function toToolTurn({ threadId, runId }: { threadId: string; runId: string }): StreamChunk {
  return {
    type: "RUN_FINISHED",
    threadId,
    runId,
    timestamp: Date.now(),
    metadata: { tanstack: { finishReason: "tool_calls" } },
  } as StreamChunk;
}

export function isToolTurn(chunk: StreamChunk): boolean {
  if (chunk.type !== "RUN_FINISHED") return false;
  const { metadata } = chunk as { metadata?: unknown };
  const extras = isRecord(metadata) ? metadata["tanstack"] : undefined;
  return isRecord(extras) && extras["finishReason"] === "tool_calls";
}
