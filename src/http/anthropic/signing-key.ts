import { randomBytes } from "node:crypto";
import type { Catalog } from "../../catalog/port.ts";

/** Whose shelf holds what belongs to the server itself; no key opens it. */
export const SYSTEM_OWNER = "sluice";

const KIND = "signing_key";

type Purpose = "mcp" | "callbacks" | "lending" | "requests";

/** The key that tokens of one purpose are made from: made on first use, and sealed like every other secret. */
export async function readSigningKey(catalog: Catalog, purpose: Purpose): Promise<string> {
  const known = await catalog.openSecret(SYSTEM_OWNER, KIND, purpose);
  if (known !== undefined) return known;
  const secret = randomBytes(32).toString("hex");
  try {
    await catalog.write(SYSTEM_OWNER, [{ op: "create", kind: KIND, id: purpose, body: {}, secret }]);
    return secret;
  } catch (error) {
    // Somebody else was first.
    const theirs = await catalog.openSecret(SYSTEM_OWNER, KIND, purpose);
    if (theirs === undefined) throw error;
    return theirs;
  }
}
