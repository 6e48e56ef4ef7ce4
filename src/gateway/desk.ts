import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { PerMinute } from "../contract/index.ts";
import type { Lending } from "../contract/process.ts";
import type { OwnPrice } from "./pricing.ts";

/** The engine's answer to the gateway of a session. */
export interface DeskAnswer {
  /** Keys by the ids of the routes. */
  readonly keys: Readonly<Record<string, string>>;
  /** Values that a cassette must not contain, each with its replacement; set if there is a cassette. */
  readonly hidden?: readonly { readonly value: string; readonly placeholder: string }[];
  /** Folders of the agent that are elsewhere in each session, with the names that a cassette has for them. */
  readonly folders?: readonly RecordedFolder[];
  readonly rules?: GatewayRules;
  /** Absent for a session without a budget. */
  readonly budget?: DeskBudget;
  /** The limits of the workspace by the minute, and what its other sessions have used. */
  readonly workspace?: { readonly perMinute: PerMinute; readonly others: readonly Use[] };
}

/** Requests and tokens of one moment, in milliseconds since 1970. */
export interface Use {
  readonly time: number;
  readonly requests: number;
  readonly tokens: number;
}

export interface RecordedFolder {
  readonly here: string;
  readonly recorded: string;
}

/** The session's rules for its model requests (docs/decisions/0074). */
export interface GatewayRules {
  /** A request that meets the provider's limit, or the session's own, waits for its reset. */
  readonly untilReset?: boolean | undefined;
  readonly perMinute?: PerMinute | undefined;
  readonly models?: Readonly<Record<string, string>> | undefined;
  readonly fallback?: readonly string[] | undefined;
  readonly policy?:
    | { readonly models?: readonly string[] | undefined; readonly maxOutputTokens?: number | undefined }
    | undefined;
}

/** The name that a provider gets for the agent's name of a model. */
export function toSentModel(rules: GatewayRules | undefined, model: string | undefined): string | undefined {
  const { models } = rules ?? {};
  return models && model !== undefined && Object.hasOwn(models, model) ? models[model] : model;
}

/** The budget of a session, as the engine has counted it. */
export interface DeskBudget {
  readonly spent: { readonly usd: number; readonly tokens: number; readonly requests: number };
  readonly ceilings: {
    readonly usd?: number | undefined;
    readonly tokens?: number | undefined;
    readonly requests?: number | undefined;
  };
  /** The measures whose ceilings are those of the workspace. */
  readonly workspace: readonly ("usd" | "tokens" | "requests")[];
  /** The position in the gateway's file of records up to which `spent` has counted them. */
  readonly at: number;
  /** Somebody has to decide: no request passes, whatever the limits say. */
  readonly isOpen?: true;
  /** The turn is being ended for its budget: nothing waits any more. */
  readonly isOver?: true;
  /** Somebody accepted that the prices of requests are not known. */
  readonly takesUnpriced: boolean;
  /** The user's own prices. */
  readonly prices: Readonly<Record<string, OwnPrice>>;
}

const FRESH_MS = 1_000;
const PATIENCE_MS = 3_000;

/** The gateway's side of the desk. While the engine does not answer, its last answer stays valid. */
export class Desk {
  readonly #lending: Lending;
  #answer: DeskAnswer | undefined;
  #asked = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | undefined;

  constructor(lending: Lending) {
    this.#lending = lending;
  }

  /** The session's token: worthless anywhere but at this gateway. */
  get token(): string {
    return toAgentToken(this.#lending.token);
  }

  /** Whether the engine was asked a moment ago. */
  get isFresh(): boolean {
    return performance.now() - this.#asked < FRESH_MS;
  }

  /** The engine's last answer; undefined where it has never answered. */
  async read(): Promise<DeskAnswer | undefined> {
    // An old answer serves at once, and is renewed behind it: a request waits only for the first one.
    if (!this.isFresh) this.#asking ??= this.#ask();
    if (this.#answer === undefined) await this.#asking;
    return this.#answer;
  }

  /** A new answer of the engine; the last one if it does not answer. */
  async renew(): Promise<DeskAnswer | undefined> {
    await (this.#asking ??= this.#ask());
    return this.#answer;
  }

  async #ask(): Promise<void> {
    const { url, token } = this.#lending;
    const nonce = randomBytes(16).toString("hex");
    try {
      const answer = await fetch(url, {
        headers: { "sluice-nonce": nonce, authorization: `Bearer ${toProof(token, nonce)}` },
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      if (answer.ok) this.#answer = decrypt(Buffer.from(await answer.arrayBuffer()), token, nonce);
    } catch {
      // No engine, or another program on its port.
    } finally {
      this.#asked = performance.now();
      this.#asking = undefined;
    }
  }
}

/** Whether a request of the desk knows the token. The token itself is never sent. */
export function isProof(given: string, token: string, nonce: string): boolean {
  const expected = Buffer.from(toProof(token, nonce), "hex");
  const bytes = Buffer.from(/^[0-9a-f]{64}$/.test(given) ? given : "", "hex");
  const isEqual = timingSafeEqual(expected, bytes.length === expected.length ? bytes : Buffer.alloc(32));
  return isEqual && nonce.length >= 16;
}

/** The engine's answer, readable with the token alone, and valid for the nonce of one request. */
export function encrypt(answer: DeskAnswer, token: string, nonce: string): Buffer {
  const iv = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", toHmac(token, "desk"), iv).setAAD(Buffer.from(nonce));
  const encrypted = Buffer.concat([cipher.update(JSON.stringify(answer), "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), encrypted]);
}

function decrypt(encrypted: Buffer, token: string, nonce: string): DeskAnswer {
  const decipher = createDecipheriv("aes-256-gcm", toHmac(token, "desk"), encrypted.subarray(0, 12));
  decipher.setAAD(Buffer.from(nonce)).setAuthTag(encrypted.subarray(12, 28));
  const text = Buffer.concat([decipher.update(encrypted.subarray(28)), decipher.final()]).toString("utf8");
  return JSON.parse(text) as DeskAnswer;
}

/** The token that an agent sends in the place of a key. It tells nothing about the desk's own. */
export function toAgentToken(deskToken: string): string {
  return `sess_${toHmac(deskToken, "agent").toString("hex").slice(0, 48)}`;
}

function toProof(token: string, nonce: string): string {
  return toHmac(token, nonce).toString("hex");
}

function toHmac(token: string, text: string): Buffer {
  return createHmac("sha256", token).update(text).digest();
}
