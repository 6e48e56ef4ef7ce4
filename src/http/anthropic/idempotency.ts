import { createHmac } from "node:crypto";
import type { Context } from "hono";
import type { Document } from "../../catalog/port.ts";
import { SluiceError } from "../../contract/index.ts";
import type { EventLog, Remembered } from "../../log/port.ts";
import type { AppEnv } from "../context.ts";
import { type Collection, readSigningKey } from "./collections.ts";
import type { AnthropicCall } from "./route.ts";

/**
 * SDKs resend a POST whose response was lost, byte for byte the same and without a key. Only a header marks the resend:
 * the same bytes without it are another request. So the key of a request is its digest, its time window and the count
 * of equal requests before it, and a resend takes the newest key.
 */

/** How long after a request a resend of it may come. */
const WINDOW_MS = 5 * 60_000;

export function isResend(c: Context<AppEnv>): boolean {
  return Number(c.req.header("x-stainless-retry-count") ?? 0) > 0;
}

interface Keyed {
  readonly key: string;
  /** The remembered answer to the request. */
  readonly known?: Remembered;
}

/** The idempotency key of a request. The caller holds the session's lock, so no two requests choose the same key. */
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

/** The newest key of this prefix, and their count. Steps double, then halve: a thousand keys are still fast. */
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

/** Lets a resent deletion succeed, although the first one has deleted the resource already. */
export async function removeOnce<Answer>(
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

export type Labels = Readonly<Record<string, string>>;

interface Creation<Body, Answer> {
  readonly collection: Collection<Body>;
  /** The content of the request without its path. */
  readonly input: unknown;
  /** Creates the document with these labels in one transaction. */
  readonly create: (labels: Labels) => Promise<Answer>;
  /** The answer to a resend, from the document of the first request. */
  readonly toAnswer: (created: Document<Body>) => Answer | Promise<Answer>;
}

/**
 * A created document carries a digest of its request as a label, written in the same transaction. So a resend finds the
 * document even if the server died before it could answer. An equal request that is no resend creates another one.
 */
export async function createOnce<Body, Answer>(
  { c, scope: { catalog, locks, tenant } }: Pick<AnthropicCall<unknown, unknown>, "c" | "scope">,
  { collection, input, create, toAnswer }: Creation<Body, Answer>,
): Promise<Answer> {
  // An HMAC instead of a plain hash: a request may hold a secret, and labels are not encrypted.
  const key = await readSigningKey(catalog, "requests");
  const text = JSON.stringify([tenant, c.req.path, input]);
  const request = createHmac("sha256", key).update(text).digest("base64url");
  return locks.run(`request ${request}`, async () => {
    const created = isResend(c) ? await findCreated(collection, tenant, request) : undefined;
    return created ? toAnswer(created) : create({ request });
  });
}

async function findCreated<Body>(
  collection: Collection<Body>,
  tenant: string,
  request: string,
): Promise<Document<Body> | undefined> {
  const query = { labels: { request }, archived: true, order: "desc", limit: 1 } as const;
  const [newest] = await collection.list(tenant, query);
  return newest && Date.now() - newest.updatedAt < WINDOW_MS ? newest : undefined;
}
