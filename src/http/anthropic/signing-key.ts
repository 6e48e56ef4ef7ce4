import { randomBytes } from "node:crypto";
import type { Catalog } from "../../catalog/port.ts";
import { SYSTEM_TENANT } from "../auth.ts";

const KIND = "signing_key";

type Purpose = "mcp" | "callbacks" | "lending" | "requests";

/** The key that signs the tokens of one purpose: created on first use, encrypted like every other secret. */
export async function readSigningKey(catalog: Catalog, purpose: Purpose): Promise<string> {
  const known = await catalog.openSecret(SYSTEM_TENANT, KIND, purpose);
  if (known !== undefined) return known;
  const secret = randomBytes(32).toString("hex");
  try {
    await catalog.write(SYSTEM_TENANT, [{ op: "create", kind: KIND, id: purpose, body: {}, secret }]);
    return secret;
  } catch (error) {
    // Another server may have created the key meanwhile.
    const other = await catalog.openSecret(SYSTEM_TENANT, KIND, purpose);
    if (other === undefined) throw error;
    return other;
  }
}
