import { createHmac } from "node:crypto";
import type { Document } from "../../catalog/port.ts";
import { isResend, WINDOW_MS } from "./resend.ts";
import type { AnthropicCall } from "./route.ts";
import type { AnthropicServices } from "./services.ts";
import type { Shelf } from "./shelf.ts";
import { readSigningKey } from "./signing-key.ts";

export type Labels = Readonly<Record<string, string>>;

export interface Making<Body, Answer> {
  /** Where what is made stands. */
  readonly shelf: Shelf<Body>;
  /** All that the request says, beside where it was sent to. */
  readonly said: unknown;
  /** Makes it under these labels, in one transaction with what it is. */
  readonly make: (labels: Labels) => Promise<Answer>;
  /** What a resend is answered, from what the first request has made. */
  readonly tell: (made: Document<Body>) => Answer | Promise<Answer>;
}

/**
 * What a request makes carries the request's mark from the transaction on in which it is made. So a resend finds it,
 * whatever became of the server before it could answer; the same request sent on purpose makes another one.
 */
export async function madeOnce<Body, Answer>(
  { catalog, locks }: Pick<AnthropicServices, "catalog" | "locks">,
  { c, owner }: Pick<AnthropicCall<unknown, unknown>, "c" | "owner">,
  { shelf, said, make, tell }: Making<Body, Answer>,
): Promise<Answer> {
  // Keyed: what a request says may be a secret, and the mark lies in the open.
  const key = await readSigningKey(catalog, "requests");
  const text = JSON.stringify([owner, c.req.path, said]);
  const request = createHmac("sha256", key).update(text).digest("base64url");
  return locks.run(`request ${request}`, async () => {
    const made = isResend(c) ? await findMade(shelf, owner, request) : undefined;
    return made ? tell(made) : make({ request });
  });
}

async function findMade<Body>(
  shelf: Shelf<Body>,
  owner: string,
  request: string,
): Promise<Document<Body> | undefined> {
  const query = { labels: { request }, archived: true, order: "desc", limit: 1 } as const;
  const [newest] = await shelf.list(owner, query);
  return newest && Date.now() - newest.updatedAt < WINDOW_MS ? newest : undefined;
}
