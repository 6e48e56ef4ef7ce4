import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Access } from "./access.ts";
import { ask } from "./door.ts";

export interface CallOptions {
  readonly signal: AbortSignal;
  /** Told every few seconds while the call waits. */
  readonly progress: (count: number) => void;
}

const PROGRESS_MS = 5_000;
const FAREWELL_MS = 5_000;

/** One call of a tool, which exists once however often its answer has to be asked for. */
export async function callTool(
  access: Access,
  tool: { name: string; input: unknown },
  { signal, progress }: CallOptions,
): Promise<unknown> {
  const path = `calls/${randomUUID()}`;
  const waiting = new AbortController();
  void tick(progress, waiting.signal);
  try {
    for (;;) {
      const { status, body } = await ask(access, "PUT", path, { body: tool, signal });
      if (status === 202) continue;
      return status === 200 ? body : failed(toReason(status, body));
    }
  } catch (error) {
    if (signal.aborted) await withdraw(access, path);
    throw error;
  } finally {
    waiting.abort();
  }
}

/** Clients that give a call so many seconds count from the last sign of life. */
async function tick(progress: (count: number) => void, signal: AbortSignal): Promise<void> {
  for (let count = 1; ; count += 1) {
    await sleep(PROGRESS_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    progress(count);
  }
}

async function withdraw(access: Access, path: string): Promise<void> {
  await ask(access, "DELETE", path, { signal: AbortSignal.timeout(FAREWELL_MS) }).catch(() => {});
}

function toReason(status: number, body: Readonly<Record<string, unknown>>): string {
  if (status === 401) return "The application's tools are not available to this run.";
  const { error } = body;
  return typeof error === "string" ? error : `The application's tools answered ${status}.`;
}

function failed(text: string): unknown {
  return { content: [{ type: "text", text }], isError: true };
}
