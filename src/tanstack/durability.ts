import type { StreamChunk, StreamDurability } from "@tanstack/ai";
import { isRecord } from "./tools.ts";
import { readFrames } from "./frames.ts";
import { followRun } from "./run.ts";
import { createTransport, pathOf, type SluiceServer } from "./server.ts";

export interface SluiceStreamRun {
  readonly runId: string;
  /** Where a reader comes back to; null for who produces. */
  readonly offset?: string | null;
}

/**
 * A run's delivery that outlives this process, without a second copy: what `sluiceText` yields is in the server's log
 * before it is yielded, and every chunk carries its place there.
 */
export function sluiceStream(server: SluiceServer, source: Request | SluiceStreamRun): StreamDurability {
  const { runId, offset = null } = source instanceof Request ? fromRequest(source) : source;
  const transport = createTransport(server);
  const path = pathOf(server);
  let last = "-1";
  let own = 0;
  return {
    resumeFrom: () => offset,
    append: async (chunks) =>
      chunks.map((chunk) => {
        const offset = offsetOf(chunk);
        own = offset === undefined ? own + 1 : 0;
        last = offset ?? last;
        // The engine's own chunks stand behind the last one of the log, each under a name of its own.
        return own === 0 ? last : `${last}~${own}`;
      }),
    async *read(offset, signal = new AbortController().signal) {
      const [from = "-1"] = offset.split("~");
      const query = { runId, offset: from, bridged: true };
      for await (const { id, chunk } of followRun(
        transport,
        path,
        { query, signal },
        from === "-1" ? undefined : from,
      ))
        yield { offset: id ?? from, chunk };
    },
    close: () => Promise.resolve(),
    async snapshot() {
      const query = { runId, offset: "-1", bridged: true, follow: false };
      const response = await transport.fetch(`${path}?${new URLSearchParams(toText(query))}`, {
        method: "GET",
      });
      if (response.status === 404) return [];
      if (!response.ok) throw new Error(`The run ${runId} cannot be read: ${response.status}.`);
      const stored: { offset: string; chunk: StreamChunk }[] = [];
      for await (const { id, chunk } of readFrames(response)) stored.push({ offset: id ?? "-1", chunk });
      return stored;
    },
  };
}

function fromRequest(request: Request): { runId: string; offset: string | null } {
  const { searchParams } = new URL(request.url);
  const runId = request.headers.get("x-run-id") ?? searchParams.get("runId") ?? crypto.randomUUID();
  return { runId, offset: request.headers.get("last-event-id") ?? searchParams.get("offset") };
}

function offsetOf(chunk: StreamChunk): string | undefined {
  const { metadata } = chunk as { metadata?: unknown };
  const own = isRecord(metadata) ? metadata["sluice"] : undefined;
  return isRecord(own) && typeof own["offset"] === "string" ? own["offset"] : undefined;
}

function toText(query: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)]));
}
