import { SluiceError } from "../contract/index.ts";

/** Shortages of the machine, and resources that another process may release. */
const PASSING = new Set("ENOSPC EDQUOT EMFILE ENFILE ENOMEM EAGAIN EBUSY EINTR ETIMEDOUT".split(" "));

/**
 * Whether a failure is temporary, so that a later try may succeed. Any other failure is damage and would repeat itself.
 * The session then reports it in its log and continues without the damaged part.
 */
export function mayPass(error: unknown): boolean {
  if (error instanceof SluiceError) return error.retryable;
  const { code } = error as NodeJS.ErrnoException;
  return typeof code === "string" && PASSING.has(code);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
