import { EventEmitter, once } from "node:events";
import { type DeskAnswer, encrypt, isProof } from "../../gateway/desk.ts";
import type { DeskRequest, ToolRun } from "../../tools/index.ts";

/** How long an answer waits for the session's account. The gateway's patience is longer. */
const ACCOUNT_MS = 2_000;

type AccountReader = () => Promise<Partial<Pick<DeskAnswer, "budget" | "workspace">>>;
type Session = Pick<ToolRun, "session" | "createdAt">;

/** The keys of led agents, in memory, for the gateways of their sandboxes. */
export class ModelDesk {
  readonly #lent = new Map<string, DeskAnswer>();
  readonly #accounts = new Map<string, AccountReader>();
  /** Emits the name of a session whose account is opened. */
  readonly #opened = new EventEmitter().setMaxListeners(0);

  /** Stores the answer for the gateway of a session. */
  put(session: Session, answer: DeskAnswer): void {
    this.#lent.set(toName(session), answer);
  }

  /** Adds the session's budget and limits to each answer, until the returned function is called. */
  account({ id: session, createdAt }: { id: string; createdAt: number }, read: AccountReader): () => void {
    const name = toName({ session, createdAt });
    this.#accounts.set(name, read);
    this.#opened.emit(name);
    return () => {
      if (this.#accounts.get(name) === read) this.#accounts.delete(name);
    };
  }

  /** Removes the keys of a session whose agent has ended. */
  forget({ id: session, createdAt }: { id: string; createdAt: number }): void {
    this.#lent.delete(toName({ session, createdAt }));
  }

  /** The answer to a gateway that knows the token, or "unknown" for a session that is not led; undefined for any other caller. */
  async answer({ run, token, nonce, proof }: DeskRequest): Promise<Buffer | "unknown" | undefined> {
    if (!isProof(proof, token, nonce)) return undefined;
    const lent = this.#lent.get(toName(run));
    if (lent === undefined) return "unknown";
    const read = await this.#accountOf(toName(run));
    // Without its account the answer would say that the session has no budget. The gateway keeps the one it had.
    return read === undefined ? "unknown" : encrypt({ ...lent, ...(await read()) }, token, nonce);
  }

  /** The account of a session, which a server that starts opens a moment after its keys are here. */
  async #accountOf(name: string): Promise<AccountReader | undefined> {
    if (!this.#accounts.has(name))
      await once(this.#opened, name, { signal: AbortSignal.timeout(ACCOUNT_MS) }).catch(() => {});
    return this.#accounts.get(name);
  }
}

function toName({ session, createdAt }: Session): string {
  return `${session}@${createdAt}`;
}
