import { createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Lending, LentSecret } from "../../../contract/launch.ts";
import type { HostPattern } from "../hostPattern.ts";
import { Substitution } from "./substitution.ts";
import { judge } from "./verdict.ts";

export interface LenderOptions {
  readonly lending: Lending;
  /** The harness's own, such as its model's: a secret that names no host does not go there. */
  readonly own: readonly HostPattern[];
}

const FRESH_MS = 1_000;
const PATIENCE_MS = 3_000;

/** Knows what is lent to this sandbox, and to which host it may go. */
export class Lender {
  readonly #options: LenderOptions;
  #known: readonly LentSecret[] = [];
  #asked = 0;
  #asking: Promise<void> | undefined;

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** Undefined where nothing may go to this host. */
  async for(host: string, port: number): Promise<Substitution | undefined> {
    if (Date.now() - this.#asked >= FRESH_MS) await (this.#asking ??= this.#ask());
    const isOwn = judge(this.#options.own, host, port) !== "refused";
    const secrets = this.#known.filter(({ hosts }) =>
      hosts === undefined ? !isOwn : hosts.some((entry) => isMeant(entry.toLowerCase(), host)),
    );
    return secrets.length === 0 ? undefined : new Substitution(secrets);
  }

  /** While the server is away, what it said last holds. */
  async #ask(): Promise<void> {
    const { url, token } = this.#options.lending;
    const nonce = randomBytes(16).toString("hex");
    try {
      const answer = await fetch(url, {
        headers: { "sluice-nonce": nonce, authorization: `Bearer ${toHmac(token, nonce).toString("hex")}` },
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      if (answer.ok) this.#known = unseal(Buffer.from(await answer.arrayBuffer()), token, nonce);
    } catch {
      // Nobody is there, or somebody else on its port.
    } finally {
      this.#asked = Date.now();
      this.#asking = undefined;
    }
  }
}

/** The token itself never travels: whoever listens in the server's place learns nothing, and can say nothing. */
function unseal(sealed: Buffer, token: string, nonce: string): LentSecret[] {
  const decipher = createDecipheriv("aes-256-gcm", toHmac(token, "answer"), sealed.subarray(0, 12));
  decipher.setAAD(Buffer.from(nonce)).setAuthTag(sealed.subarray(12, 28));
  const text = Buffer.concat([decipher.update(sealed.subarray(28)), decipher.final()]).toString("utf8");
  return (JSON.parse(text) as { secrets: LentSecret[] }).secrets;
}

function toHmac(token: string, text: string): Buffer {
  return createHmac("sha256", token).update(text).digest();
}

function isMeant(entry: string, host: string): boolean {
  return entry.startsWith("*.") ? isIP(host) === 0 && host.endsWith(entry.slice(1)) : entry === host;
}
