import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { Scope } from "../../contract/index.ts";

/** The header of a request that another node has forwarded: its claims and their signature. */
export const FORWARD_HEADER = "sluice-forward";

/** How old a forwarded request may be. The clocks of the nodes may differ by as much. */
const VALID_MS = 300_000;

const Claims = z.strictObject({
  /** The life of the node that may accept it. */
  to: z.string(),
  /** The name of the node that has checked the token. */
  from: z.string(),
  method: z.string(),
  /** The path with its query. */
  path: z.string(),
  at: z.number(),
  /** What the sender may do, as the first node has found it. */
  access: z.strictObject({
    tenant: z.string(),
    scope: Scope,
    isOperator: z.literal(true).exactOptional(),
    session: z.string().optional(),
    token: z.string().optional(),
  }),
});
export type Claims = z.infer<typeof Claims>;

/** The keys for forwarded requests, from the keys that encrypt secrets: all nodes have those. */
export function deriveKeys(keys: readonly Uint8Array[]): Uint8Array[] {
  return keys.map((key) => new Uint8Array(hkdfSync("sha256", key, "", "sluice forwarded requests 1", 32)));
}

export function sign(claims: Claims, [key]: readonly Uint8Array[]): string {
  if (!key) throw new TypeError("There is no key for forwarded requests.");
  const text = Buffer.from(JSON.stringify(claims)).toString("base64url");
  return `${text}.${toSignature(text, key)}`;
}

/** The claims of a header that a node has signed for this request; undefined for any other text. */
export function verify(
  header: string,
  request: Pick<Claims, "method" | "path">,
  { keys, now = Date.now() }: { keys: readonly Uint8Array[]; now?: number },
): Claims | undefined {
  const [text = "", signature = "", ...more] = header.split(".");
  const given = Buffer.from(signature);
  const isSigned = keys.some((key) => {
    const expected = Buffer.from(toSignature(text, key));
    return expected.length === given.length && timingSafeEqual(expected, given);
  });
  if (!isSigned || more.length > 0) return undefined;
  const claims = Claims.safeParse(JSON.parse(Buffer.from(text, "base64url").toString()));
  if (!claims.success) return undefined;
  const { method, path, at } = claims.data;
  const isIt = method === request.method && path === request.path && Math.abs(now - at) <= VALID_MS;
  return isIt ? claims.data : undefined;
}

function toSignature(text: string, key: Uint8Array): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}
