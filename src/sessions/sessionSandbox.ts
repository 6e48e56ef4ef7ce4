import { SluiceError, type EventDraft } from "../contract/index.ts";
import type { Sandbox } from "../sandbox/port.ts";
import type { SessionContext } from "./context.ts";
import { createSandbox, findSandbox, remakeSandbox } from "./createSandbox.ts";
import { mayPass, messageOf } from "./damage.ts";
import type { Drafts } from "./drafts.ts";

/** The sandbox of a session: made when it is needed, found again, frozen, removed. */
export class SessionSandbox {
  readonly #context: SessionContext;
  /** One object for all: what it holds open for the session is held once. */
  #sandbox: Sandbox | undefined;
  #making: Promise<Sandbox> | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** The sandbox that the session has; undefined where there is none, and while it is only being made. */
  async connected(): Promise<Sandbox | undefined> {
    return this.#making === undefined ? this.#connect() : undefined;
  }

  /** The same where something may still run in it: also one that somebody deleted is there again. */
  async recovered(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const known = writer.fold.sandbox;
    const connected = await this.connected();
    if (connected || !known || this.#making) return connected;
    this.#sandbox = await remakeSandbox(deps, writer.row, known);
    return this.#sandbox;
  }

  /**
   * Made if there is none, its making recorded as it happens. Whoever comes meanwhile waits for the same one, so never
   * call it under the lock: its making needs the lock to record.
   */
  made(): Promise<Sandbox> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Answers when no sandbox is being made any more, whatever became of it. */
  async settled(): Promise<void> {
    await this.#making?.catch(() => {});
  }

  /** Stops every process of it where it stands. */
  async pause(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    const sandbox = await this.made();
    await exclusive(async () => {
      if (writer.fold.paused) return;
      if (!sandbox.pause) throw lacks(sandbox, "pause");
      await sandbox.pause();
      await commit(writer.drafts([{ type: "sandbox.paused", source: "daemon", data: factOf(sandbox) }]));
    });
  }

  async resume(): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    if (!(await exclusive(async () => writer.fold.paused))) return;
    const sandbox = await this.made();
    await exclusive(async () => {
      if (!writer.fold.paused) return;
      if (!sandbox.resume) throw lacks(sandbox, "resume");
      await sandbox.resume();
      await commit(writer.drafts([{ type: "sandbox.resumed", source: "daemon", data: factOf(sandbox) }]));
    });
  }

  async host(port: number): Promise<URL> {
    const { writer, exclusive } = this.#context;
    const sandbox = await this.made();
    // What opens the port stands still too: it would be waited for until somebody resumes.
    if (await exclusive(async () => writer.fold.paused))
      throw new SluiceError("session_busy", "the sandbox is paused; resume it first");
    if (!sandbox.host) throw lacks(sandbox, "forward ports");
    return sandbox.host(port);
  }

  /** Ends it and removes its files; call it under the lock, when nothing runs any more. */
  async destroy(drafts: Drafts): Promise<void> {
    const sandbox = await this.reachable();
    if (!sandbox) return;
    await sandbox.destroy();
    this.#sandbox = undefined;
    drafts.add({ type: "sandbox.killed", source: "daemon", data: factOf(sandbox) });
  }

  /** Ends it without a word, as far as it can be reached: the reaper ends what is left when its session is gone. */
  async remove(): Promise<void> {
    await (await this.reachable())?.destroy();
    this.#sandbox = undefined;
  }

  /** The sandbox to end something in. One that is damaged beyond reach ends nothing, and holds nobody up. */
  async reachable(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const { processOpen, command } = writer.fold;
    try {
      return await (processOpen || command ? this.recovered() : this.connected());
    } catch (error) {
      if (mayPass(error)) throw error;
      const message = "the sandbox cannot be reached";
      deps.logger({ level: "error", message, session: writer.row.id, error: messageOf(error) });
      return undefined;
    }
  }

  /** Lets go of what is held open for it, and ends nothing. */
  async release(): Promise<void> {
    await this.#sandbox?.release?.();
  }

  async #connect(): Promise<Sandbox | undefined> {
    const { deps, writer } = this.#context;
    const known = writer.fold.sandbox;
    if (!known) return undefined;
    if (this.#sandbox?.id !== known.id) {
      const found = await findSandbox(deps, writer.row, known);
      // A server that froze it (for a pause, a checkpoint, a full disk) may have ended before the log said so.
      if (!writer.fold.paused) await found?.resume?.();
      this.#sandbox = found;
    }
    return this.#sandbox;
  }

  /** The lock is free while a sandbox is made, which may take long: messages are accepted meanwhile. */
  async #make(): Promise<Sandbox> {
    const { deps, writer, exclusive, commit } = this.#context;
    const record = (event: EventDraft): Promise<void> => exclusive(() => commit(writer.drafts([event])));
    this.#sandbox =
      (await this.#connect()) ?? (await createSandbox(deps, writer.row, record, writer.fold.sandbox));
    return this.#sandbox;
  }
}

function factOf({ id, provider }: Sandbox): { sandbox_id: string; provider: string } {
  return { sandbox_id: id, provider };
}

function lacks({ provider }: Sandbox, capability: string): SluiceError {
  return new SluiceError(
    "capability_missing",
    `a ${provider} sandbox cannot ${capability}; use another provider`,
  );
}
