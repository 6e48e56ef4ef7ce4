import { createHash } from "node:crypto";
import type { Context } from "hono";
import { SluiceError } from "../../contract/index.ts";
import type { EventLog, Remembered } from "../../log/port.ts";
import type { AppEnv } from "../env.ts";

/**
 * SDKs send a POST again when its answer was lost, byte for byte the same and without a key; only a header says that
 * it is a resend. The same words sent on purpose are another request. So a request's key is what it says, when it came
 * and how many of its kind came before it, and a resend takes the newest key that there is.
 */

/** How long after it a request may be sent again. */
export const WINDOW_MS = 5 * 60_000;

export function isResend(c: Context<AppEnv>): boolean {
  return Number(c.req.header("x-stainless-retry-count") ?? 0) > 0;
}

export function digestOf(...said: unknown[]): string {
  return createHash("sha256").update(JSON.stringify(said)).digest("hex");
}

export interface Keyed {
  readonly key: string;
  /** What the request was answered with before. */
  readonly known?: Remembered;
}

/** To be asked by one request of a session at a time. */
export async function chooseKey(
  log: EventLog,
  session: string,
  request: { digest: string; resent: boolean; now: number },
): Promise<Keyed> {
  const window = Math.floor(request.now / WINDOW_MS);
  const newest = await findNewest(log, session, `${request.digest}:${window}`);
  if (!request.resent) return { key: `${request.digest}:${window}:${newest.count}` };
  const before =
    newest.count > 0 ? newest : await findNewest(log, session, `${request.digest}:${window - 1}`);
  if (before.known) return { key: before.key, known: before.known };
  return { key: `${request.digest}:${window}:0` };
}

/** Doubling steps, then halving ones: a client that says the same a thousand times is not slowed down by it. */
async function findNewest(
  log: EventLog,
  session: string,
  prefix: string,
): Promise<{ count: number; key: string; known?: Remembered }> {
  const at = (index: number): Promise<Remembered | undefined> => log.recall(session, `${prefix}:${index}`);
  let unknown = 1;
  let newest = await at(0);
  if (!newest) return { count: 0, key: "" };
  let known = 0;
  for (let found = await at(unknown); found; found = await at(unknown)) {
    newest = found;
    known = unknown;
    unknown *= 2;
  }
  while (unknown - known > 1) {
    const middle = (known + unknown) >> 1;
    const found = await at(middle);
    if (found) {
      newest = found;
      known = middle;
    } else unknown = middle;
  }
  return { count: unknown, key: `${prefix}:${known}`, known: newest };
}

/** A deletion whose answer was lost finds nothing left to delete: that is what it wanted. */
export async function removedOnce<Answer>(
  c: Context<AppEnv>,
  answer: Answer,
  remove: () => Promise<unknown>,
): Promise<Answer> {
  try {
    await remove();
  } catch (error) {
    const isGone = error instanceof SluiceError && error.status === 404;
    if (!isGone || !isResend(c)) throw error;
  }
  return answer;
}
