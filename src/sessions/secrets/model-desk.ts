import { type DeskAnswer, encrypt, isProof } from "../../gateway/desk.ts";
import type { DeskRequest, ToolRun } from "../../tools/index.ts";

type AccountReader = () => Promise<Partial<Pick<DeskAnswer, "budget" | "workspace">>>;
type Session = Pick<ToolRun, "session" | "createdAt">;

/** The keys of led agents, in memory, for the gateways of their sandboxes. */
export class ModelDesk {
  readonly #lent = new Map<string, DeskAnswer>();
  readonly #accounts = new Map<string, AccountReader>();

  /** Stores the answer for the gateway of a session. */
  put(session: Session, answer: DeskAnswer): void {
    this.#lent.set(toName(session), answer);
  }

  /** Adds the session's budget and limits to each answer, until the returned function is called. */
  account({ id: session, createdAt }: { id: string; createdAt: number }, read: AccountReader): () => void {
    const name = toName({ session, createdAt });
    this.#accounts.set(name, read);
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
    const account = await this.#accounts.get(toName(run))?.();
    return encrypt({ ...lent, ...account }, token, nonce);
  }
}

function toName({ session, createdAt }: Session): string {
  return `${session}@${createdAt}`;
}
