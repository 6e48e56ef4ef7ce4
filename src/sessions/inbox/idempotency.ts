import { createHash } from "node:crypto";
import { SluiceError } from "../../contract/index.ts";
import type { EventLog, Remembered } from "../../log/port.ts";
import type { CommitExtra } from "../fold/writer.ts";

export interface KeyOptions {
  /** A repetition with the same key and content does nothing and gets the same answer, also after a restart. */
  readonly key?: string | undefined;
  /** The author of an answer in its event: the id of a token. */
  readonly by?: string | undefined;
}

/** A request that takes effect once for its key. A resend repeats `body`, and gets the answer of the first one. */
export interface KeyedRequest {
  readonly key?: string | undefined;
  readonly kind: string;
  readonly body: unknown;
}

/** The answer that an earlier request with this key got. Fails for another request with the same key. */
export async function recallAnswer<Answer>(
  log: EventLog,
  session: string,
  request: KeyedRequest,
): Promise<Answer | undefined> {
  const { key, kind, body } = request;
  if (key === undefined) return undefined;
  const known = await log.recall(session, key);
  return known && fromRemembered<Answer>(known, digest([kind, body]));
}

/** The answer, to be committed together with the effect of the request. Pure. */
export function rememberAnswer({ key, kind, body }: KeyedRequest, answer: unknown): Pick<CommitExtra, "key"> {
  if (key === undefined) return {};
  return { key: { key, fingerprint: digest([kind, body]), answer: JSON.stringify(answer) } };
}

export function fromRemembered<Answer>(known: Remembered, fingerprint: string): Answer {
  if (known.fingerprint === fingerprint) return JSON.parse(known.answer) as Answer;
  throw new SluiceError(
    "idempotency_conflict",
    "this Idempotency-Key came with another request before; use a new key for a new request",
  );
}

/** A digest of the request: an idempotency key must not be used for another request. */
export function digest(request: unknown): string {
  return createHash("sha256").update(JSON.stringify(request)).digest("base64url");
}
