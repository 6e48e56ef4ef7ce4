import { createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Lending, LentSecret } from "../../../contract/launch.ts";
import type { HostPattern } from "../hostPattern.ts";
import { SecretForms } from "./secretForms.ts";
import { Substitution } from "./substitution.ts";
import { judge } from "./verdict.ts";

export interface LenderOptions {
  readonly lending: Lending;
  /** The harness's own, such as its model's: a secret that names no host does not go there. */
  readonly own: readonly HostPattern[];
}

const FRESH_MS = 1_000;
const PATIENCE_MS = 3_000;

/** Bounds of what is remembered. */
const MOST_LENT = 256;
const MOST_FORMS = 32;

/** Knows what is lent to this sandbox, and to which host it may go. */
export class Lender {
  readonly #options: LenderOptions;
  #known: readonly LentSecret[] = [];
  /** All that was ever known: a host that got a value may send it back after it was changed. */
  readonly #lent = new Map<string, LentSecret>();
  readonly #forms = new Map<string, SecretForms>();
  readonly #addresses = new Set<string>();
  #asked = 0;
  #asking: Promise<void> | undefined;

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** Undefined where nothing may go to this host, or ever could. */
  async for(host: string, port: number): Promise<Substitution | undefined> {
    if (Date.now() - this.#asked >= FRESH_MS) await (this.#asking ??= this.#ask());
    const isOwn = judge({ patterns: this.#options.own }, host, port) !== "refused";
    const isFor = ({ hosts }: LentSecret): boolean =>
      hosts === undefined ? !isOwn : hosts.some((entry) => isMeant(entry.toLowerCase(), host));
    const lent = [...this.#lent.values()].filter(isFor);
    if (lent.length === 0) return undefined;
    return new Substitution({ secrets: this.#known.filter(isFor), forms: this.#formsOf(lent) });
  }

  /** A connection that secrets may go by leads there. */
  remember(address: string | undefined, port: number): void {
    this.#addresses.add(`${address} ${port}`);
  }

  /** Whether it is the address of a host that secrets may go to, and not the harness's own. */
  isKnown(address: string, port: number): boolean {
    if (judge({ patterns: this.#options.own }, address, port) !== "refused") return false;
    return this.#addresses.has(`${address} ${port}`);
  }

  #formsOf(secrets: readonly LentSecret[]): SecretForms {
    const unique = new Map(secrets.map(({ placeholder, value }) => [value, { placeholder, value }]));
    const key = JSON.stringify([...unique.values()]);
    const forms = this.#forms.get(key) ?? new SecretForms([...unique.values()]);
    if (this.#forms.size >= MOST_FORMS) this.#forms.clear();
    this.#forms.set(key, forms);
    return forms;
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
      if (answer.ok) this.#learn(unseal(Buffer.from(await answer.arrayBuffer()), token, nonce));
    } catch {
      // Nobody is there, or somebody else on its port.
    } finally {
      this.#asked = Date.now();
      this.#asking = undefined;
    }
  }

  #learn(secrets: readonly LentSecret[]): void {
    this.#known = secrets;
    for (const secret of secrets) {
      const key = JSON.stringify(secret);
      this.#lent.delete(key);
      this.#lent.set(key, secret);
    }
    for (const key of this.#lent.keys()) {
      if (this.#lent.size <= MOST_LENT) return;
      this.#lent.delete(key);
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
