import { createHash, randomBytes } from "node:crypto";
import type { Catalog } from "../../catalog/port.ts";
import { type CreateToken, SluiceError } from "../../contract/index.ts";
import { SYSTEM_TENANT } from "../access/access.ts";
import type { Login } from "../access/tokens.ts";

/** How long a code may wait for its browser. */
export const CODE_MS = 60_000;
/** The oldest codes are forgotten beyond this count. */
const MAX_CODES = 1_000;

/** The login that a code opens. */
export interface CodeGrant {
  readonly token: CreateToken;
  readonly login: Login;
}

/** Codes that log a browser in, each once and within a minute. They end with the server's process. */
export class Codes {
  readonly #waiting = new Map<string, { readonly grant: CodeGrant; readonly until: number }>();

  create(grant: CodeGrant): { code: string; expiresAt: number } {
    const code = randomBytes(24).toString("base64url");
    const until = Date.now() + CODE_MS;
    this.#waiting.set(digest(code), { grant, until });
    for (const [key, { until: end }] of this.#waiting)
      if (end < Date.now() || this.#waiting.size > MAX_CODES) this.#waiting.delete(key);
    return { code, expiresAt: until };
  }

  /** The grant of a code, which is spent by this. */
  take(code: string): CodeGrant | undefined {
    const key = digest(code);
    const found = this.#waiting.get(key);
    this.#waiting.delete(key);
    return found && found.until >= Date.now() ? found.grant : undefined;
  }
}

const KIND = "login_code";

/** The same for several servers: a browser may redeem its code at another one than the one that has made it. */
export class SharedCodes {
  readonly #catalog: Catalog;

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  async create(grant: CodeGrant): Promise<{ code: string; expiresAt: number }> {
    const code = randomBytes(24).toString("base64url");
    const until = Date.now() + CODE_MS;
    await this.#removeOld();
    const change = { op: "create", kind: KIND, id: digest(code), body: { grant, until } } as const;
    await this.#catalog.write(SYSTEM_TENANT, [change]);
    return { code, expiresAt: until };
  }

  async take(code: string): Promise<CodeGrant | undefined> {
    const id = digest(code);
    const found = await this.#catalog.find(SYSTEM_TENANT, KIND, id);
    if (!found) return undefined;
    try {
      // Only one of two callers can remove it.
      await this.#catalog.write(SYSTEM_TENANT, [{ op: "remove", kind: KIND, id }]);
    } catch (error) {
      if (error instanceof SluiceError && error.code === "not_found") return undefined;
      throw error;
    }
    const { grant, until } = found.body as { grant: CodeGrant; until: number };
    return until >= Date.now() ? grant : undefined;
  }

  async #removeOld(): Promise<void> {
    const known = await this.#catalog.list(SYSTEM_TENANT, { kind: KIND, limit: MAX_CODES });
    for (const { id, body } of known)
      if ((body as { until: number }).until < Date.now())
        await this.#catalog.write(SYSTEM_TENANT, [{ op: "remove", kind: KIND, id }]).catch(() => {});
  }
}

/** A lookup by the digest takes the same time for every wrong code. */
function digest(code: string): string {
  return createHash("sha256").update(code).digest("hex");
}
