import type { StreamChunk } from "@tanstack/ai";
import { isRecord } from "./tools.ts";

/** A chunk with its place in the server's log. */
export function withOffset(chunk: StreamChunk, offset: string | undefined): StreamChunk {
  if (offset === undefined) return chunk;
  const metadata: unknown = (chunk as { metadata?: unknown }).metadata;
  return { ...chunk, metadata: { ...(isRecord(metadata) ? metadata : {}), sluice: { offset } } };
}

export function offsetOf(chunk: StreamChunk): string | undefined {
  const { metadata } = chunk as { metadata?: unknown };
  const own = isRecord(metadata) ? metadata["sluice"] : undefined;
  return isRecord(own) && typeof own["offset"] === "string" ? own["offset"] : undefined;
}
