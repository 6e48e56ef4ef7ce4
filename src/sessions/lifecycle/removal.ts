import { rm } from "node:fs/promises";
import { join } from "node:path";
import { defined } from "../../contract/own-keys.ts";
import { SluiceError } from "../../contract/index.ts";
import type { SessionRow } from "../../log/port.ts";
import { messageOf } from "../failure.ts";
import type { SessionDeps } from "../deps.ts";
import type { OpenSessions } from "./open-sessions.ts";
import { isNotFound } from "../refusals.ts";
import { forgetSecrets } from "../secrets/kept.ts";
import type { Session } from "../session.ts";

/** Removes sessions: processes, then files, then rows. After a crash the next start finishes a removal. */
export class Removal {
  readonly #deps: SessionDeps;
  readonly #open: OpenSessions;

  constructor(deps: SessionDeps, open: OpenSessions) {
    this.#deps = deps;
    this.#open = open;
  }

  /** With `restingAt`, only a session without activity since that head of its log. */
  async remove(id: string, { restingAt }: { restingAt?: number } = {}): Promise<void> {
    const end = async (session: Session): Promise<void> => {
      if (restingAt !== undefined && !session.restsAt(restingAt))
        throw new SluiceError("session_busy", `session ${id} is in use again`);
      try {
        await session.remove();
      } catch (error) {
        if (!(error instanceof SluiceError && error.code === "storage_full")) throw error;
      } finally {
        this.#open.drop(session);
      }
      // The files go after the event: a crash before it must leave a working session.
      await session.workspace.remove();
    };
    await this.#open.removing(id, async () => {
      await this.#open.withToEnd(id, end, "at once");
      await this.#erase(id);
    });
  }

  /** Finishes the removals that a crash interrupted. */
  async finish(): Promise<void> {
    for (const id of await this.#halfDeleted())
      await this.#erase(id).catch((error: unknown) =>
        this.#complain("a deleted session could not be removed", error, id),
      );
    await this.eraseRetired();
  }

  /** Removes the rows that were kept for readers of deleted sessions. The next start repeats a failed removal. */
  async eraseRetired(): Promise<void> {
    try {
      for (const row of await this.#retired()) {
        await this.#deps.log.remove(row.id).catch((error: unknown) => {
          // Its last reader has just left, and the log removed it.
          if (!isNotFound(error)) throw error;
        });
      }
    } catch (error) {
      // The log is closed, so nothing can be removed from it.
      if (error instanceof SluiceError && error.code === "draining") return;
      this.#complain("the rows of a deleted session could not be removed", error);
    }
  }

  /** The sessions whose `session.deleted` is in the log, by a server that died before it removed them. */
  async #halfDeleted(): Promise<string[]> {
    const { log, lease } = this.#deps;
    const found: string[] = [];
    const rows = await log.active();
    await lease.refresh();
    for (const row of rows) {
      if (!lease.isFree(row.owner)) continue;
      const [last] = await log.read(row.id, { after: row.head - 1, limit: 1 }).catch(() => []);
      if (last?.type === "session.deleted") found.push(row.id);
    }
    return found;
  }

  /** The retired sessions of this process, and of processes that are gone. A living server removes its own. */
  async #retired(): Promise<SessionRow[]> {
    const { log, lease } = this.#deps;
    const rows = await log.retired();
    await lease.refresh();
    return rows.filter(({ owner }) => lease.isFree(owner));
  }

  /** Removes the files and rows of a session without processes. */
  async #erase(id: string): Promise<void> {
    await rm(join(this.#deps.spoolRoot, id), { recursive: true, force: true }).catch((error: unknown) => {
      // A file stands in place of the folder of spools, so there is nothing to remove.
      if ((error as NodeJS.ErrnoException).code !== "ENOTDIR") throw error;
    });
    await forgetSecrets((await this.#open.row(id)).spec, this.#deps.kept);
    await this.#deps.log.remove(id);
  }

  #complain(message: string, error: unknown, session?: string): void {
    this.#deps.logger({ level: "error", message, ...defined({ session }), error: messageOf(error) });
  }
}
