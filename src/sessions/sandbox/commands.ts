import { join, relative } from "node:path";
import { setImmediate as immediate } from "node:timers/promises";
import { defined } from "../../contract/own-keys.ts";
import { createId, type EventDraft, SluiceError, type RunCommand } from "../../contract/index.ts";
import { isInside, PINNED } from "../../sandbox/host/files/paths.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import type { OutputBatch, Spool } from "../../spool/index.ts";
import type { SessionContext } from "../context.ts";
import { isKey, readCredentials } from "../secrets/credentials.ts";
import type { Drafts } from "../fold/drafts.ts";
import { mustBeDamage, damageEvent } from "../process/recovery.ts";
import { type KeyedRequest, rememberAnswer } from "../inbox/idempotency.ts";
import type { StartedCommand } from "../port.ts";
import { refuseMoving } from "../refusals.ts";
import { createRedactor, type Redactor, secretsOf } from "../secrets/redact.ts";
import type { Runner } from "../process/runner.ts";
import type { SessionSandbox } from "./session-sandbox.ts";
import { commandEnded, RunningCommand, type CommandReason } from "./running-command.ts";

const HOUR_MS = 3_600_000;
/** Below the kernel's limit for one argument. */
const MAX_COMMAND_BYTES = 120_000;

/**
 * The shell commands of clients in the sandbox, one at a time. Like an agent's process, a command writes to a spool and
 * outlives the server.
 */
export class Commands {
  readonly #context: SessionContext;
  readonly #runner: Runner;
  readonly #sandbox: SessionSandbox;
  #running: RunningCommand | undefined;

  constructor(context: SessionContext, runner: Runner, sandbox: SessionSandbox) {
    this.#context = context;
    this.#runner = runner;
    this.#sandbox = sandbox;
  }

  /** Call it under the lock. */
  async start(given: RunCommand, sandbox: Sandbox, request: KeyedRequest): Promise<StartedCommand> {
    this.refuse(given);
    const { writer, commit } = this.#context;
    const id = createId("command");
    const after = writer.fold.head;
    const { command, cwd, timeoutMs: timeout_ms = HOUR_MS, background, stdin } = given;
    const data = { command_id: id, command, ...defined({ cwd, timeout_ms, background }) };
    const started: EventDraft = { type: "command.started", source: "daemon", data };
    const answer = { commandId: id, after };
    await commit(writer.drafts([started]), rememberAnswer(request, answer));
    try {
      const { env } = await this.#secrets();
      const input = stdin === undefined ? undefined : Buffer.from(stdin, given.stdinEncoding ?? "utf8");
      const argv = toArgv(command, toFolder(cwd, sandbox), { hasInput: stdin !== undefined });
      const { processes } = sandbox;
      const spool = await processes.start({ name: id, launch: { argv, env }, streams: "named", input });
      await this.#follow(spool, sandbox);
    } catch (error) {
      await commit(writer.drafts([commandEnded(id, "failed", { reason: "lost" })]));
      throw error;
    }
    return answer;
  }

  /** Picks up the command of an earlier server. Call it under the lock. */
  async recover(): Promise<void> {
    const { writer, commit } = this.#context;
    const open = writer.fold.command;
    if (!open || this.#running) return;
    let damage: unknown;
    try {
      const sandbox = await this.#sandbox.recovered();
      const spool = sandbox && (await sandbox.processes.open(open.id));
      if (sandbox && spool) return await this.#follow(spool, sandbox);
    } catch (error) {
      mustBeDamage(this.#context, error);
      damage = error;
    }
    // Nobody would report the command's end any more, so it is ended. An agent in the same sandbox goes on.
    if (!writer.fold.processOpen) await (await this.#sandbox.reachable())?.killAll();
    const drafts = writer.drafts();
    if (damage !== undefined)
      drafts.add(damageEvent(this.#context, "the command cannot be found again", damage));
    loseCommand(this.#context, drafts);
    await commit(drafts);
  }

  /** Ends the running command, and returns its id once its end is in the log; undefined where none runs. */
  async stop(reason: CommandReason): Promise<string | undefined> {
    const { writer, exclusive } = this.#context;
    // A start holds the lock until the command runs.
    if (!this.#running && writer.fold.command) await exclusive(async () => {});
    const running = this.#running;
    await running?.stop(reason);
    return running?.id;
  }

  /** Stops reading. The command runs on. */
  async detach(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    await running?.detach();
  }

  async #follow(spool: Spool, sandbox: Sandbox): Promise<void> {
    const { writer, giveUp } = this.#context;
    const open = writer.fold.command;
    if (!open) return;
    // Fails where a secret is missing: it could not be redacted from the output.
    const { redactor } = await this.#secrets();
    const running = new RunningCommand(open, { spool, sandbox, redactor });
    this.#running = running;
    const timeoutMs = open.timeoutMs ?? HOUR_MS;
    // A clock that was set back does not lengthen the wait.
    const left = Math.min(open.startedAt + timeoutMs - Date.now(), timeoutMs);
    running.ringIn(left, () => this.#stopInBackground("timeout"));
    running.read(() =>
      this.#read(running)
        .catch((error: unknown) => this.#lose(running, error))
        .catch(giveUp),
    );
  }

  async #read(running: RunningCommand): Promise<void> {
    const { exclusive, isClosed } = this.#context;
    for await (const batch of running.outputs()) {
      if (isClosed() || running.isDetached) return;
      await exclusive(() => this.#tell(running, batch));
      if (batch.exit) return;
      if (running.isTooLong) this.#stopInBackground("lost");
      await immediate();
    }
  }

  #stopInBackground(reason: CommandReason): void {
    this.stop(reason).catch((error: unknown) => this.#complain(error));
  }

  /** Ends a command whose output cannot be read. */
  async #lose(running: RunningCommand, error: unknown): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    mustBeDamage(this.#context, error);
    await exclusive(async () => {
      this.#release(running);
      await running.signal("SIGKILL").catch((failure: unknown) => {
        mustBeDamage(this.#context, failure);
        this.#complain(failure);
      });
      const damage = damageEvent(this.#context, "the output of the command cannot be read", error);
      const drafts = writer.drafts([damage]);
      loseCommand(this.#context, drafts);
      await commit(drafts);
      await running.spool.remove();
    });
    this.#runner.advance();
  }

  async #tell(running: RunningCommand, batch: OutputBatch): Promise<void> {
    const { writer, commit } = this.#context;
    const events = running.toEvents(batch);
    if (events.length > 0) await commit(writer.drafts(events));
    if (!batch.exit) return;
    this.#release(running);
    await running.spool.remove();
    // An agent's restart may have waited for the end of the command.
    this.#runner.advance();
  }

  #release(running: RunningCommand): void {
    running.clearAlarm();
    if (this.#running === running) this.#running = undefined;
  }

  #complain(error: unknown): void {
    const { deps, writer } = this.#context;
    const facts = { session: writer.row.id, error: String(error) };
    deps.logger({ level: "warn", message: "a command could not be ended", ...facts });
  }

  /** The environment of the session's commands, and the redactor for their output. */
  async #secrets(): Promise<{ env: Readonly<Record<string, string>>; redactor: Redactor }> {
    const { deps, writer } = this.#context;
    const { spec } = writer;
    const harness = deps.harness(spec);
    const read = await readCredentials(harness, spec, { kept: deps.kept });
    const env = Object.entries(read.secrets).filter(([name]) => !isKey(harness, name));
    const all = new Map([...deps.secrets, ...secretsOf(spec), ...read.values]);
    return { env: Object.fromEntries(env), redactor: createRedactor(all) };
  }

  /** Throws where the command cannot be started now. */
  refuse({ command }: RunCommand): void {
    const { deps, writer } = this.#context;
    const { fold } = writer;
    if (deps.draining()) throw new SluiceError("draining", "try again in a moment: the server is restarting");
    refuseMoving(fold);
    if (fold.paused) throw new SluiceError("session_busy", "the sandbox is paused; resume it first");
    if (fold.command)
      throw new SluiceError("session_busy", "a command runs already; wait for its end, or interrupt it");
    if (fold.turn || fold.inbox.length > 0 || this.#runner.isBooting) {
      const detail = "a command cannot run while a turn does; wait for its end, or interrupt it";
      throw new SluiceError("session_busy", detail);
    }
    if (Buffer.byteLength(command) <= MAX_COMMAND_BYTES) return;
    const detail = `a command has at most ${MAX_COMMAND_BYTES} bytes; put it into a file`;
    throw new SluiceError("too_large", detail);
  }
}

/** Reports the open command as lost. */
export function loseCommand({ writer }: SessionContext, drafts: Drafts): void {
  const { command } = writer.fold;
  if (command) drafts.add(commandEnded(command.id, "failed", { reason: "lost" }));
}

/** Reports the open command of a session that is being removed. Its process is dead. */
export function endCommand({ writer }: SessionContext, drafts: Drafts): void {
  const { command } = writer.fold;
  if (command) drafts.add(commandEnded(command.id, "interrupted", { reason: "terminated" }));
}

/** A sandbox without mounts has its workspace at another path than the one that clients know. */
function toFolder(cwd: string | undefined, { paths }: Sandbox): string {
  const root = [PINNED.workspace, "/workspace"].find((root) => cwd !== undefined && isInside(cwd, root));
  return root === undefined ? (cwd ?? paths.workspace) : join(paths.workspace, relative(root, cwd ?? root));
}

/** A command has no terminal: its input is empty. */
function toArgv(command: string, cwd: string, { hasInput }: { hasInput: boolean }): string[] {
  const input = hasInput ? "" : " </dev/null";
  return ["/bin/sh", "-c", `cd -- "$1" && exec /bin/sh -c "$2"${input}`, "sh", cwd, command];
}
