import type { StreamChunk } from "@tanstack/ai";

/** All chunks of a `chat()` stream, in order. */
export async function collect(stream: AsyncIterable<StreamChunk>): Promise<StreamChunk[]> {
  const chunks: StreamChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/** The values of the CUSTOM events of this name. */
export function valuesOf(chunks: readonly StreamChunk[], name: string): unknown[] {
  return chunks.flatMap((chunk) => (chunk.type === "CUSTOM" && chunk.name === name ? [chunk.value] : []));
}

/** Types, and the names of CUSTOM events. */
export function namesOf(chunks: readonly StreamChunk[]): string[] {
  return chunks.map((chunk) => (chunk.type === "CUSTOM" ? chunk.name : chunk.type));
}
