import type { AnyTool, StreamChunk } from "@tanstack/ai";
import type { Transport } from "../client/transport.ts";
import { type PlacedChunk, readFrames } from "./frames.ts";
import { toNthRun } from "./request.ts";
import { followRun } from "./run.ts";
import { isOthers, isToolTurn, toToolTurn } from "./toolTurn.ts";
import { toRequestedCall } from "./tools.ts";

export interface ChatRuns {
  readonly transport: Transport;
  readonly path: string;
  /** By which the application knows the call of `chat()`. */
  readonly runId: string;
  readonly tools?: readonly AnyTool[] | undefined;
}

/** A chunk and the place behind which its reader comes back. */
export interface StoredChunk {
  readonly offset: string;
  readonly chunk: StreamChunk;
}

/** Everything of a call of `chat()`, live: each of its runs behind the other, told as the one that the application began. */
export async function* followChat(
  chat: ChatRuns & { readonly signal: AbortSignal },
  from: string,
): AsyncGenerator<StoredChunk, void> {
  const { transport, path, signal } = chat;
  let last = from;
  for (let nth = 1; ; nth += 1) {
    const query = { runId: toNthRun(chat.runId, nth), offset: last, bridged: true };
    const seen = last === "-1" ? undefined : last;
    let told: StoredChunk | undefined;
    for await (const placed of followRun(transport, path, { query, signal }, seen)) {
      told = toStored(placed, last, chat);
      last = told.offset;
      if (isToolTurn(told.chunk)) break;
      if (nth === 1 || told.chunk.type !== "RUN_STARTED") yield told;
    }
    const end = told && isToolTurn(told.chunk) ? told : undefined;
    // One that tells nothing was seen to its end: the place is in a later one.
    if (!end && (told || seen === undefined)) return;
    // Where the engine had the answer itself, the call went on.
    const next = await fetchRun(chat, nth + 1);
    await next?.body?.cancel();
    if (!next && end) yield end;
    if (!next) return;
    if (end) last = "-1";
  }
}

/** What there is of it by now. */
export async function readChat(chat: ChatRuns): Promise<StoredChunk[]> {
  const all: StoredChunk[] = [];
  for (let nth = 1; ; nth += 1) {
    const response = await fetchRun(chat, nth);
    if (!response) return all;
    const end = all.at(-1);
    if (end && isToolTurn(end.chunk)) all.pop();
    for await (const placed of readFrames(response)) {
      const stored = toStored(placed, "-1", chat);
      if (nth === 1 || stored.chunk.type !== "RUN_STARTED") all.push(stored);
      if (isToolTurn(stored.chunk)) break;
    }
    const last = all.at(-1);
    if (!last || !isToolTurn(last.chunk)) return all;
  }
}

async function fetchRun({ transport, path, runId }: ChatRuns, nth: number): Promise<Response | undefined> {
  const query = { runId: toNthRun(runId, nth), offset: "-1", bridged: "true", follow: "false" };
  const response = await transport.fetch(`${path}?${new URLSearchParams(query)}`, { method: "GET" });
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error(`The run ${query.runId} cannot be read: ${response.status}.`);
  return response;
}

function toStored({ id, chunk }: PlacedChunk, before: string, { runId, tools }: ChatRuns): StoredChunk {
  const offset = id ?? before;
  const requested = tools && toRequestedCall(chunk);
  const { threadId = "" } = chunk as { threadId?: string };
  if (requested && isOthers(requested, tools))
    return { offset, chunk: toToolTurn({ threadId: threadId || requested.sessionId, runId }) };
  return { offset, chunk: "runId" in chunk ? ({ ...chunk, runId } as StreamChunk) : chunk };
}
