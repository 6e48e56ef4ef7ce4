import type { AnyTool, StreamDurability } from "@tanstack/ai";
import { followChat, readChat } from "./chatRuns.ts";
import { offsetOf } from "./offset.ts";
import { createTransport, pathOf, type SluiceServer } from "./server.ts";

export interface SluiceStreamRun {
  readonly runId: string;
  /** Where a reader comes back to; null for who produces. */
  readonly offset?: string | null;
}

export interface SluiceStreamOptions {
  /** Those of `chat()`: a run that waits for one which is not run there has ended for its readers too. */
  readonly tools?: readonly AnyTool[];
}

/**
 * A run's delivery that outlives this process, without a second copy: what `sluiceText` yields is in the server's log
 * before it is yielded, and every chunk carries its place there.
 */
export function sluiceStream(
  server: SluiceServer,
  source: Request | SluiceStreamRun,
  { tools }: SluiceStreamOptions = {},
): StreamDurability {
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
    read: (offset, signal = new AbortController().signal) =>
      followChat({ transport, path, runId, tools, signal }, offset.split("~")[0] ?? "-1"),
    close: () => Promise.resolve(),
    snapshot: () => readChat({ transport, path, runId, tools }),
  };
}

function fromRequest(request: Request): { runId: string; offset: string | null } {
  const { searchParams } = new URL(request.url);
  const runId = request.headers.get("x-run-id") ?? searchParams.get("runId") ?? crypto.randomUUID();
  return { runId, offset: request.headers.get("last-event-id") ?? searchParams.get("offset") };
}
