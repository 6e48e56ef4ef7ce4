import {
  createId,
  SessionId,
  SluiceError,
  type SessionInfo,
  type SessionSpec,
} from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import { findHarness } from "../../harness/registry.ts";
import type { SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import { forgetSecrets, keepSecrets } from "../secrets/credentials.ts";
import { refuseSpec } from "../spec.ts";
import { Forks, type ForkOptions } from "./fork.ts";
import type { SessionList } from "./session-list.ts";

export interface CreationParts {
  readonly deps: SessionDeps;
  readonly dataDir: string;
  readonly harnesses: readonly Harness[];
  readonly list: SessionList;
  /** Makes the checkpoint that a fork starts from, and returns its id. */
  checkpoint(session: string): Promise<string>;
  restore: ForkOptions["restore"];
  remove: ForkOptions["remove"];
  onCreated(row: SessionRow): void;
}

/** Creates sessions, new ones and forks. */
export class Creation {
  readonly #parts: CreationParts;
  readonly #forks: Forks;

  constructor(parts: CreationParts) {
    this.#parts = parts;
    const { deps, dataDir, restore, remove } = parts;
    this.#forks = new Forks({ dataDir, log: deps.log, lease: deps.lease, restore, remove });
  }

  /** Removes the incomplete forks of servers that crashed. */
  removeUnfinished(): Promise<void> {
    return this.#forks.removeUnfinished();
  }

  async create(wanted: string | undefined, asked: SessionSpec): Promise<SessionInfo> {
    const { deps, list, checkpoint } = this.#parts;
    const id = wanted ?? createId("session");
    const valid = SessionId.safeParse(id);
    if (!valid.success)
      throw new SluiceError("invalid_request", valid.error.issues[0]?.message ?? "bad session id");
    if (deps.draining())
      throw new SluiceError("draining", "create it again in a moment: the server is restarting");
    const harness = findHarness(asked.agent, this.#parts.harnesses);
    // Stored with the session: another default must not take its isolation away later.
    const spec = { ...asked, sandbox: asked.sandbox ?? (await deps.defaultSandbox()) };
    await refuseSpec(spec, harness, deps.provider(spec.sandbox));
    const { fork } = spec;
    const origin = fork && (fork.checkpoint ?? (await checkpoint(fork.session)));
    if (origin === undefined) return list.infoOf(await this.#store(id, spec));
    await this.#forks.make(id, origin, () => this.#store(id, spec));
    return list.info(id);
  }

  async #store(id: string, given: SessionSpec): Promise<SessionRow> {
    const { deps, dataDir, onCreated } = this.#parts;
    const spec = await keepSecrets(given, dataDir);
    try {
      const row = await deps.log.create({ id, spec, owner: deps.owner, time: Date.now() });
      onCreated(row);
      return row;
    } catch (error) {
      if (spec !== given) await forgetSecrets(spec, dataDir);
      throw error;
    }
  }
}
