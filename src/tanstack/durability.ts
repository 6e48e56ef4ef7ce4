import type { AnyTool, StreamChunk, StreamDurability } from "@tanstack/ai";
import type { Transport } from "../client/transport.ts";
import { toNthRun } from "./request.ts";
import {
  createTransport,
  followRun,
  offsetOf,
  pathOf,
  type PositionedChunk,
  readFrames,
  type SluiceServer,
} from "./run.ts";
import { isAwaitingTool, runsElsewhere, toAwaitingTool, toRequestedCall } from "./tools.ts";

/** The offset before a run's first chunk, as TanStack writes it. */
const BEGINNING = "-1";

export interface SluiceStreamRun {
  readonly runId: string;
  /** The offset after which a reader resumes; null for the producer. */
  readonly offset?: string | null;
}

export interface SluiceStreamOptions {
  /** The tools of `chat()`. A run that waits for any other tool ends for its readers. */
  readonly tools?: readonly AnyTool[];
}

/**
 * A durable stream of a run without a second copy: the server's log has each chunk before `sluiceText` yields it, and
 * each chunk carries its position there.
 */
export function sluiceStream(
  server: SluiceServer,
  source: Request | SluiceStreamRun,
  { tools }: SluiceStreamOptions = {},
): StreamDurability {
  const { runId, offset = null } = source instanceof Request ? fromRequest(source) : source;
  const transport = createTransport(server);
  const path = pathOf(server);
  let last = BEGINNING;
  let added = 0;
  return {
    resumeFrom: () => offset,
    append: async (chunks) =>
      chunks.map((chunk) => {
        const offset = offsetOf(chunk);
        added = offset === undefined ? added + 1 : 0;
        last = offset ?? last;
        // Chunks that TanStack's engine adds are not in the log. They get offsets after the log's last chunk.
        return added === 0 ? last : `${last}~${added}`;
      }),
    read: (offset, signal = new AbortController().signal) =>
      followChat({ transport, path, runId, tools, signal }, offset.split("~")[0] ?? BEGINNING),
    close: () => Promise.resolve(),
    snapshot: () => readChat({ transport, path, runId, tools }),
  };
}

function fromRequest(request: Request): { runId: string; offset: string | null } {
  const { searchParams } = new URL(request.url);
  const runId = request.headers.get("x-run-id") ?? searchParams.get("runId") ?? crypto.randomUUID();
  return { runId, offset: request.headers.get("last-event-id") ?? searchParams.get("offset") };
}

export interface ChatRuns {
  readonly transport: Transport;
  readonly path: string;
  /** The application's id of the call of `chat()`. */
  readonly runId: string;
  readonly tools?: readonly AnyTool[] | undefined;
}

/** A chunk, and the offset after which a reader resumes. */
export interface StoredChunk {
  readonly offset: string;
  readonly chunk: StreamChunk;
}

/** Yields all chunks of a call of `chat()`, live: its runs in order, under the application's run id. */
async function* followChat(
  chat: ChatRuns & { readonly signal: AbortSignal },
  from: string,
): AsyncGenerator<StoredChunk, void> {
  const { transport, path, signal } = chat;
  let last = from;
  for (let nth = 1; ; nth += 1) {
    const query = { runId: toNthRun(chat.runId, nth), offset: last, bridged: true };
    const seen = last === BEGINNING ? undefined : last;
    let stored: StoredChunk | undefined;
    for await (const positioned of followRun(transport, path, { query, signal }, seen)) {
      stored = toStored(positioned, last, chat);
      last = stored.offset;
      if (isAwaitingTool(stored.chunk)) break;
      // For the application all runs are one, so only the first one's start is shown.
      if (nth === 1 || stored.chunk.type !== "RUN_STARTED") yield stored;
    }
    const end = stored && isAwaitingTool(stored.chunk) ? stored : undefined;
    // No chunk came after the offset: it lies in a later run.
    const isLater = stored === undefined && seen !== undefined;
    if (!end && !isLater) return;
    // TanStack's engine starts a next run once it has answered the tool call. This request only asks whether there is one.
    const next = await fetchRun(chat, nth + 1);
    await next?.body?.cancel();
    if (!next && end) yield end;
    if (!next) return;
    if (end) last = BEGINNING;
  }
}

/** The chunks of a call of `chat()` so far. */
async function readChat(chat: ChatRuns): Promise<StoredChunk[]> {
  const all: StoredChunk[] = [];
  for (let nth = 1; ; nth += 1) {
    const response = await fetchRun(chat, nth);
    if (!response) return all;
    const end = all.at(-1);
    if (end && isAwaitingTool(end.chunk)) all.pop();
    for await (const positioned of readFrames(response)) {
      const stored = toStored(positioned, BEGINNING, chat);
      if (nth === 1 || stored.chunk.type !== "RUN_STARTED") all.push(stored);
      if (isAwaitingTool(stored.chunk)) break;
    }
    const last = all.at(-1);
    if (!last || !isAwaitingTool(last.chunk)) return all;
  }
}

async function fetchRun({ transport, path, runId }: ChatRuns, nth: number): Promise<Response | undefined> {
  const query = { runId: toNthRun(runId, nth), offset: BEGINNING, bridged: "true", follow: "false" };
  const response = await transport.fetch(`${path}?${new URLSearchParams(query)}`, { method: "GET" });
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error(`The run ${query.runId} cannot be read: ${response.status}.`);
  return response;
}

function toStored({ id, chunk }: PositionedChunk, before: string, { runId, tools }: ChatRuns): StoredChunk {
  const offset = id ?? before;
  const requested = tools && toRequestedCall(chunk);
  const { threadId = "" } = chunk as { threadId?: string };
  if (requested && runsElsewhere(requested, tools))
    return { offset, chunk: toAwaitingTool({ threadId: threadId || requested.sessionId, runId }) };
  return { offset, chunk: "runId" in chunk ? ({ ...chunk, runId } as StreamChunk) : chunk };
}
