import { SluiceError } from "../contract/index.ts";

/** What the machine is short of at the moment, or another process is about to give back. */
const PASSING = new Set("ENOSPC EDQUOT EMFILE ENFILE ENOMEM EAGAIN EBUSY EINTR ETIMEDOUT".split(" "));

/**
 * Whether a failure may pass by itself, so that trying again later is the answer. Every other failure is damage: it
 * would come again each time, so the session says it in its log and goes on without the damaged thing.
 */
export function mayPass(error: unknown): boolean {
  if (error instanceof SluiceError) return error.retryable || error.code === "fenced";
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === "string" && PASSING.has(code);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
