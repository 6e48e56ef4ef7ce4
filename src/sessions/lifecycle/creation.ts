import {
  createId,
  RESERVED_SESSION_IDS,
  SessionId,
  SluiceError,
  type SessionInfo,
  type SessionSpec,
} from "../../contract/index.ts";
import type { Harness } from "../../harness/port.ts";
import { findHarness } from "../../harness/registry.ts";
import type { NewSession, SessionRow } from "../../log/port.ts";
import type { SessionDeps } from "../deps.ts";
import { type KeyedRequest, recallAnswer, rememberAnswer } from "../inbox/idempotency.ts";
import type { CreateOptions } from "../port.ts";
import { refuseCassette } from "../secrets/cassette.ts";
import { forgetSecrets, keepSecrets } from "../secrets/kept.ts";
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
  /** The id of the session's newest checkpoint. */
  latest(session: string): Promise<string | undefined>;
  restore: ForkOptions["restore"];
  remove: ForkOptions["remove"];
  onCreated(row: SessionRow): void;
}

/** Creates sessions, new ones and forks. */
export class Creation {
  readonly #parts: CreationParts;
  readonly #forks: Forks;
  /** The creations under way that have an idempotency key. */
  readonly #making = new Map<string, Promise<unknown>>();

  constructor(parts: CreationParts) {
    this.#parts = parts;
    const { deps, dataDir, restore, remove } = parts;
    this.#forks = new Forks({ dataDir, log: deps.log, lease: deps.lease, restore, remove });
  }

  /** Removes the incomplete forks of servers that crashed. */
  removeUnfinished(): Promise<void> {
    return this.#forks.removeUnfinished();
  }

  async create(wanted: string | undefined, asked: SessionSpec, options: CreateOptions): Promise<SessionInfo> {
    const id = wanted ?? createId("session");
    const request = { key: options.key, kind: "create", body: asked };
    const creationKey = options.key === undefined ? undefined : `${id}\n${options.key}`;
    // A resend may come while the first request still copies the files of a fork.
    if (creationKey !== undefined) await this.#making.get(creationKey)?.catch(() => {});
    const known = await this.#recall(id, request);
    if (known) return known;
    const created = this.#create(id, asked, { request, tenant: options.tenant });
    if (creationKey === undefined) return created;
    this.#making.set(creationKey, created);
    try {
      return await created;
    } catch (error) {
      const first = isTaken(error) ? await this.#recall(id, request) : undefined;
      if (first) return first;
      throw error;
    } finally {
      if (this.#making.get(creationKey) === created) this.#making.delete(creationKey);
    }
  }

  /** The session that an earlier request with this key created. */
  async #recall(id: string, request: KeyedRequest): Promise<SessionInfo | undefined> {
    const { deps, list } = this.#parts;
    const answer = await recallAnswer<{ isFork: boolean }>(deps.log, id, request);
    if (!answer) return undefined;
    const info = await list.info(id);
    // The first request got this answer: a new session has no native session yet, but a fork has one.
    return answer.isFork ? info : { ...info, nativeSessionId: null };
  }

  async #create(
    id: string,
    asked: SessionSpec,
    { request, tenant }: { request: KeyedRequest; tenant: string | undefined },
  ): Promise<SessionInfo> {
    const { deps, list } = this.#parts;
    const valid = SessionId.safeParse(id);
    if (!valid.success)
      throw new SluiceError("invalid_request", valid.error.issues[0]?.message ?? "bad session id");
    if (RESERVED_SESSION_IDS.has(id))
      throw new SluiceError("invalid_request", `"${id}" is a path of the API; choose another session id`);
    if (deps.draining())
      throw new SluiceError("draining", "create it again in a moment: the server is restarting");
    const harness = findHarness(asked.agent, this.#parts.harnesses);
    const cassette = asked.cassette ?? (hasModel(harness) ? deps.defaultCassette : undefined);
    // Stored with the session: another default must not take its isolation away later.
    const sandbox = asked.sandbox ?? (await deps.defaultSandbox());
    const spec = { ...asked, sandbox, ...(cassette === undefined ? {} : { cassette }) };
    await refuseSpec(spec, harness, deps.provider(spec.sandbox));
    refuseCassette(cassette, harness, { root: deps.cassettes, tenant });
    const { fork } = spec;
    const origin = fork && (await this.#toOrigin(fork));
    const store = (): Promise<SessionRow> =>
      this.#store(id, spec, { tenant, ...rememberAnswer(request, { isFork: origin !== undefined }) });
    if (origin === undefined) return list.infoOf(await store());
    await this.#forks.make(id, origin, store);
    return list.info(id);
  }

  /** The id of the checkpoint. "latest" is that of the other session: the new one has none yet. */
  async #toOrigin({ session, checkpoint: wanted }: NonNullable<SessionSpec["fork"]>): Promise<string> {
    const { checkpoint, latest } = this.#parts;
    if (wanted !== "latest") return wanted ?? checkpoint(session);
    const found = await latest(session);
    if (found !== undefined) return found;
    throw new SluiceError("checkpoint_not_found", `the session ${session} has no checkpoint; make one first`);
  }

  async #store(
    id: string,
    given: SessionSpec,
    more: Pick<NewSession, "key" | "tenant">,
  ): Promise<SessionRow> {
    const { deps, onCreated } = this.#parts;
    const spec = await keepSecrets(given, deps.kept);
    try {
      const row = await deps.log.create({ id, spec, owner: deps.owner, time: Date.now(), ...more });
      onCreated(row);
      return row;
    } catch (error) {
      if (spec !== given) await forgetSecrets(spec, deps.kept);
      throw error;
    }
  }
}

/** An agent without credentials, such as the scripted one, has no model. */
function hasModel({ credentials = [] }: Harness): boolean {
  return credentials.length > 0;
}

function isTaken(error: unknown): boolean {
  return error instanceof SluiceError && error.code === "session_already_exists";
}
