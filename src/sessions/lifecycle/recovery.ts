import type { SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { isHeldElsewhere } from "./claim.ts";
import { isNotFound } from "../refusals.ts";

/** Each recovery reads files and may start programs. */
const AT_ONCE = 8;

/** Picks up the active sessions of servers that are gone: after a restart, and from time to time. */
export class Recovery {
  readonly #deps: SessionDeps;
  readonly #open: OpenSessions;
  /** The sessions that the first round has yet to pick up. */
  readonly #expected = new Set<string>();

  constructor(deps: SessionDeps, open: OpenSessions) {
    this.#deps = deps;
    this.#open = open;
  }

  /** Notes the sessions of the first round. */
  async expect(): Promise<void> {
    for (const { id } of await this.#abandoned()) this.#expected.add(id);
  }

  /**
   * Takes over one expected session before its place in the first round. A failure is reported by the next use of the
   * session.
   */
  async recoverFirst(id: string): Promise<void> {
    if (this.#expected.has(id)) await this.#recover(id);
  }

  /** Picks up every session whose server is gone. */
  async run(): Promise<void> {
    const left = (await this.#abandoned()).map(({ id }) => id);
    const recoverNext = async (): Promise<void> => {
      for (let id = left.shift(); id !== undefined && !this.#open.isClosed; id = left.shift())
        await this.#recover(id);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, recoverNext));
  }

  async #recover(id: string): Promise<void> {
    await this.#open
      .open(id)
      .catch((error: unknown) => {
        // Another node was faster.
        if (!isNotFound(error) && !isHeldElsewhere(error)) this.#open.failed.reopenLater(id, error);
      })
      .finally(() => this.#expected.delete(id));
  }

  async #abandoned(): Promise<SessionRow[]> {
    const { log, lease } = this.#deps;
    if (!(await lease.hasOrphans())) return [];
    const rows = await log.active();
    await lease.refresh();
    return rows.filter(({ id, owner }) => !this.#open.isKnown(id) && lease.isFree(owner));
  }
}
