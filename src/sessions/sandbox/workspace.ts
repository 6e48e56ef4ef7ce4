import { SluiceError, type RunCommand } from "../../contract/index.ts";
import type { CheckpointInfo } from "../../sandbox/checkpoint/port.ts";
import type { Sandbox, SandboxFiles } from "../../sandbox/port.ts";
import type { SessionContext } from "../context.ts";
import { opening } from "../fold/writer.ts";
import { refuseEnded, refuseMoving, refuseTurn } from "../refusals.ts";
import { type KeyedRequest, recallAnswer, rememberAnswer } from "../inbox/idempotency.ts";
import type { KeyOptions, StartedCommand } from "../port.ts";
import type { Runner } from "../process/runner.ts";
import type { Commands } from "./commands.ts";
import { Move } from "./move.ts";
import { pauseSandbox } from "./pause.ts";
import type { SessionSandbox } from "./session-sandbox.ts";

interface WorkspaceParts {
  readonly sandbox: SessionSandbox;
  readonly runner: Runner;
  readonly commands: Commands;
  /** Ends an idle agent's process. */
  sleep(): Promise<void>;
}

/** A client's own use of the sandbox: files, commands, ports, checkpoints, pauses. */
export class Workspace {
  readonly #context: SessionContext;
  readonly #parts: WorkspaceParts;

  constructor(context: SessionContext, parts: WorkspaceParts) {
    this.#context = context;
    this.#parts = parts;
  }

  move(sandbox: string, options?: KeyOptions): Promise<void> {
    return new Move(this.#context, this.#parts).to(sandbox, options);
  }

  async files({ onlyExisting = false }: { onlyExisting?: boolean | undefined } = {}): Promise<SandboxFiles> {
    const { writer, exclusive } = this.#context;
    if (!onlyExisting) return (await this.#sandbox(() => refuseMoving(writer.fold))).files;
    const kept = await exclusive(() => this.#parts.sandbox.connected());
    if (kept) return kept.files;
    throw new SluiceError(
      "file_not_found",
      "the session has no sandbox yet, and so no files; its first message makes one",
    );
  }

  /** For a session that is being removed. */
  remove(): Promise<void> {
    return this.#parts.sandbox.remove();
  }

  host(port: number): Promise<URL> {
    this.#refuseEnded();
    refuseMoving(this.#context.writer.fold);
    return this.#parts.sandbox.host(port);
  }

  async exec(command: RunCommand, { key }: KeyOptions = {}): Promise<StartedCommand> {
    const { runner, commands } = this.#parts;
    const request = { key, kind: "command", body: command };
    const known = await this.#recall<StartedCommand>(request);
    if (known) return known;
    const sandbox = await this.#sandbox(() => {
      this.#refuseEnded();
      commands.refuse(command);
    });
    for (;;) {
      // The end of an idle agent ends every process of the sandbox.
      await runner.cleared();
      const started = await this.#context.exclusive(async () => {
        const known = await this.#recall<StartedCommand>(request);
        if (known) return known;
        this.#refuseEnded();
        return runner.isClearing ? undefined : commands.start(command, sandbox, request);
      });
      if (started) return started;
    }
  }

  async checkpoint(comment: string | undefined, { key }: KeyOptions = {}): Promise<CheckpointInfo> {
    const { checkpointer, writer, exclusive, commit } = this.#context;
    const request = { key, kind: "checkpoint", body: comment };
    const known = await this.#recall<CheckpointInfo>(request);
    if (known) return known;
    const refuse = (): void => this.#refuseTurn("be checkpointed");
    const sandbox = await this.#sandbox(refuse);
    return exclusive(async () => {
      const known = await this.#recall<CheckpointInfo>(request);
      if (known) return known;
      refuse();
      const { info, event } = await checkpointer.create(sandbox, comment);
      await commit(writer.drafts([event]), rememberAnswer(request, info));
      return info;
    });
  }

  /** Ends the agent's process first. The next message starts it again with the restored memory. */
  async restore(checkpoint: string, { key }: KeyOptions = {}): Promise<CheckpointInfo> {
    const { checkpointer, writer, exclusive, commit } = this.#context;
    const request = { key, kind: "restore", body: checkpoint };
    const known = await this.#recall<CheckpointInfo>(request);
    if (known) return known;
    this.#refuseEnded();
    this.#refuseTurn("be restored");
    await this.#parts.sleep();
    const sandbox = await this.#sandbox();
    return exclusive(async () => {
      const known = await this.#recall<CheckpointInfo>(request);
      if (known) return known;
      this.#refuseTurn("be restored");
      const { info, events } = await checkpointer.restore(sandbox, checkpoint);
      await commit(writer.drafts(events), rememberAnswer(request, info));
      return info;
    });
  }

  async pause(): Promise<void> {
    this.#refuseEnded();
    refuseMoving(this.#context.writer.fold);
    await this.#parts.runner.cleared();
    return pauseSandbox(this.#context, this.#parts.sandbox);
  }

  resume(): Promise<void> {
    return this.#parts.runner.resume();
  }

  /** The session's sandbox, created where there is none; an ended session gets none. Never call it under the lock. */
  async #sandbox(refuse: () => void = () => {}): Promise<Sandbox> {
    const { writer, exclusive, commit } = this.#context;
    const { sandbox } = this.#parts;
    const kept = await exclusive(async () => {
      refuse();
      const kept = await sandbox.connected();
      if (kept) return kept;
      this.#refuseEnded();
      if (!writer.fold.started) await commit(writer.drafts(opening(writer)));
      return undefined;
    });
    return kept ?? sandbox.made();
  }

  #recall<Answer>(request: KeyedRequest): Promise<Answer | undefined> {
    const { deps, writer } = this.#context;
    return recallAnswer<Answer>(deps.log, writer.row.id, request);
  }

  #refuseEnded(): void {
    const { writer } = this.#context;
    refuseEnded(writer.row.id, writer.fold, this.#parts.runner);
  }

  #refuseTurn(what: string): void {
    refuseTurn(what, this.#context.writer.fold, this.#parts.runner);
  }
}
