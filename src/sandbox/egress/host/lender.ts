import { createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Lending, LentSecret } from "../../../contract/launch.ts";
import { judge, type HostPattern } from "../allow-list.ts";
import { SecretForms } from "./secret-forms.ts";
import { Substitution } from "./substitution.ts";

interface LenderOptions {
  readonly lending: Lending;
  /** The harness's own hosts, such as its model's: a secret that names no host does not go there. */
  readonly own: readonly HostPattern[];
}

const FRESH_MS = 1_000;
const PATIENCE_MS = 3_000;

/** The most entries that are kept in memory. */
const MOST_LENT = 256;
const MOST_FORMS = 32;

/** The secrets that are lent to this sandbox, and the hosts that they may go to. */
export class Lender {
  readonly #options: LenderOptions;
  #current: readonly LentSecret[] = [];
  /** All secrets so far, current or former: a host may send a value back after it was changed. */
  readonly #lent = new Map<string, LentSecret>();
  readonly #forms = new Map<string, SecretForms>();
  readonly #addresses = new Set<string>();
  #asked = 0;
  #asking: Promise<void> | undefined;

  constructor(options: LenderOptions) {
    this.#options = options;
  }

  /** The substitution for a host; undefined where no secret, current or former, may go there. */
  async for(host: string, port: number): Promise<Substitution | undefined> {
    if (Date.now() - this.#asked >= FRESH_MS) await (this.#asking ??= this.#ask());
    const isOwn = judge({ patterns: this.#options.own }, host, port) !== "refused";
    const isFor = ({ hosts }: LentSecret): boolean =>
      hosts === undefined ? !isOwn : hosts.some((entry) => isMeant(entry.toLowerCase(), host));
    const lent = [...this.#lent.values()].filter(isFor);
    if (lent.length === 0) return undefined;
    return new Substitution({ secrets: this.#current.filter(isFor), forms: this.#formsOf(lent) });
  }

  /** Remembers the address of a host that secrets may go to. */
  remember(address: string | undefined, port: number): void {
    this.#addresses.add(`${address} ${port}`);
  }

  /** Whether an address was remembered; false for the harness's own hosts. */
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

  /** Asks the server for the secrets. While it does not answer, its last answer stays valid. */
  async #ask(): Promise<void> {
    const { url, token } = this.#options.lending;
    const nonce = randomBytes(16).toString("hex");
    try {
      const answer = await fetch(url, {
        headers: { "sluice-nonce": nonce, authorization: `Bearer ${toHmac(token, nonce).toString("hex")}` },
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      if (answer.ok) this.#learn(decrypt(Buffer.from(await answer.arrayBuffer()), token, nonce));
    } catch {
      // No server, or another program on its port.
    } finally {
      this.#asked = Date.now();
      this.#asking = undefined;
    }
  }

  #learn(secrets: readonly LentSecret[]): void {
    this.#current = secrets;
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

/** The token itself is never sent, so another program on the server's port can neither learn it nor answer. */
function decrypt(encrypted: Buffer, token: string, nonce: string): LentSecret[] {
  const decipher = createDecipheriv("aes-256-gcm", toHmac(token, "answer"), encrypted.subarray(0, 12));
  decipher.setAAD(Buffer.from(nonce)).setAuthTag(encrypted.subarray(12, 28));
  const text = Buffer.concat([decipher.update(encrypted.subarray(28)), decipher.final()]).toString("utf8");
  return (JSON.parse(text) as { secrets: LentSecret[] }).secrets;
}

function toHmac(token: string, text: string): Buffer {
  return createHmac("sha256", token).update(text).digest();
}

function isMeant(entry: string, host: string): boolean {
  return entry.startsWith("*.") ? isIP(host) === 0 && host.endsWith(entry.slice(1)) : entry === host;
}
