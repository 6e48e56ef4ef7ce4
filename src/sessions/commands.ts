import { constants } from "node:os";
import { join, relative } from "node:path";
import { setImmediate as immediate, setTimeout as sleep } from "node:timers/promises";
import {
  createId,
  SluiceError,
  type EventData,
  type EventDraft,
  type ProcessExit,
  type RunCommand,
} from "../contract/index.ts";
import { isInside, PINNED } from "../sandbox/host/mapping.ts";
import type { Sandbox } from "../sandbox/port.ts";
import { createSpool, isAlive, openSpool, type OutputBatch, type Spool } from "../spool/index.ts";
import type { SessionContext } from "./context.ts";
import { isKey, readCredentials } from "./credentials.ts";
import type { Drafts } from "./drafts.ts";
import { mustBeDamage, tellDamage } from "./recovery.ts";
import type { StartedCommand } from "./port.ts";
import { createRedactor, type Redactor, secretsOf } from "./redact.ts";
import type { Runner } from "./runner.ts";
import type { SessionSandbox } from "./sessionSandbox.ts";
import { Tellable } from "./tellable.ts";

type Reason = NonNullable<EventData<"command.ended">["reason"]>;

interface Running {
  readonly id: string;
  readonly spool: Spool;
  readonly sandbox: Sandbox;
  readonly abort: AbortController;
  readonly streams: { readonly stdout: Tellable; readonly stderr: Tellable };
  done: Promise<void>;
  alarm?: NodeJS.Timeout;
  /** Why we ended it ourselves. */
  reason?: Reason;
  bytes: number;
}

const HOUR_MS = 3_600_000;
/** How long a command gets to end by itself when it is asked to. */
const GENTLE_MS = 1_500;
const LOOKS = 100;
const LOOK_MS = 10;
/** What one command may print. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;
/** The kernel takes no longer argument. */
const MAX_COMMAND_BYTES = 120_000;

/**
 * Shell commands that a client runs in the sandbox, one at a time. Like an agent's process a command writes to a
 * spool, depends on nobody, and is found again after a restart.
 */
export class Commands {
  readonly #context: SessionContext;
  readonly #runner: Runner;
  readonly #sandbox: SessionSandbox;
  #running: Running | undefined;

  constructor(context: SessionContext, runner: Runner, sandbox: SessionSandbox) {
    this.#context = context;
    this.#runner = runner;
    this.#sandbox = sandbox;
  }

  /** Call it under the lock. */
  async start(request: RunCommand, sandbox: Sandbox): Promise<StartedCommand> {
    this.refuse(request);
    const { writer, commit } = this.#context;
    const id = createId("command");
    const after = writer.fold.head;
    const { command, cwd, timeoutMs, background } = request;
    const started: EventDraft = {
      type: "command.started",
      source: "daemon",
      data: {
        command_id: id,
        command,
        ...(cwd === undefined ? {} : { cwd }),
        timeout_ms: timeoutMs ?? HOUR_MS,
        ...(background === undefined ? {} : { background }),
      },
    };
    await commit(writer.drafts([started]));
    try {
      const spool = await createSpool(this.#folder(id));
      const { env } = await this.#secrets();
      const argv = toArgv(command, toFolder(cwd, sandbox));
      await sandbox.spawn({ launch: { argv, env }, wrapper: spool.wrapper });
      await this.#follow(spool, sandbox);
    } catch (error) {
      await commit(writer.drafts([toEnded(id, "failed", { reason: "lost" })]));
      throw error;
    }
    return { commandId: id, after };
  }

  /** Picks up the command that an earlier life left running; call it under the lock. */
  async recover(): Promise<void> {
    const { writer, commit } = this.#context;
    const open = writer.fold.command;
    if (!open || this.#running) return;
    try {
      const sandbox = await this.#sandbox.recovered();
      const spool = sandbox && (await openSpool(this.#folder(open.id)));
      if (sandbox && spool) return await this.#follow(spool, sandbox);
    } catch (error) {
      mustBeDamage(this.#context, error);
      await tellDamage(this.#context, "the command cannot be found again", error);
    }
    // Nobody would see its end, so it ends now; an agent beside it goes on.
    if (!writer.fold.processOpen) await (await this.#sandbox.reachable())?.killAll();
    const drafts = writer.drafts();
    loseCommand(this.#context, drafts);
    await commit(drafts);
  }

  /** Ends what runs, and answers its id when its end is in the log; undefined where nothing ran. */
  async stop(reason: Reason): Promise<string | undefined> {
    const { writer, exclusive } = this.#context;
    // One that is only being started holds the lock until it runs.
    if (!this.#running && writer.fold.command) await exclusive(async () => {});
    const running = this.#running;
    if (!running) return undefined;
    const isFirst = running.reason === undefined;
    running.reason ??= reason;
    try {
      await this.#signal(running, "SIGINT");
    } catch (error) {
      // A provider may have no signals; then its end will be its own.
      if (isFirst) delete running.reason;
      throw error;
    }
    await Promise.race([running.done, sleep(GENTLE_MS, undefined, { ref: false })]);
    for (let tries = 0; this.#running === running && tries < 5; tries += 1) {
      await this.#signal(running, "SIGKILL");
      if (!(await isAlive(running.spool.folder))) await running.spool.killed();
      await Promise.race([running.done, sleep(GENTLE_MS, undefined, { ref: false })]);
    }
    await running.done;
    return running.id;
  }

  /** Stops looking, and ends nothing. */
  async detach(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    clearTimeout(running?.alarm);
    running?.abort.abort();
    await running?.done;
  }

  async #follow(spool: Spool, sandbox: Sandbox): Promise<void> {
    const { writer, giveUp } = this.#context;
    const open = writer.fold.command;
    if (!open) return;
    // A secret that is not there any more could not be taken out of the output: then the command is not read on.
    const { redactor } = await this.#secrets();
    const stream = (offset: number): Tellable => new Tellable({ redactor, offset });
    const running: Running = {
      id: open.id,
      spool,
      sandbox,
      abort: new AbortController(),
      streams: { stdout: stream(open.told.stdout), stderr: stream(open.told.stderr) },
      done: Promise.resolve(),
      bytes: open.told.stdout + open.told.stderr,
    };
    this.#running = running;
    const timeoutMs = open.timeoutMs ?? HOUR_MS;
    // A clock that was set back makes it no longer.
    const left = Math.min(open.startedAt + timeoutMs - Date.now(), timeoutMs);
    const end = (): void => void this.stop("timeout").catch((error: unknown) => this.#complain(error));
    running.alarm = setTimeout(end, Math.min(Math.max(left, 0), 2 ** 30));
    running.alarm.unref();
    running.done = this.#read(running, open.told)
      .catch((error: unknown) => this.#lose(running, error))
      .catch(giveUp);
  }

  async #read(running: Running, from: { stdout: number; stderr: number }): Promise<void> {
    const { exclusive, isClosed } = this.#context;
    const { signal } = running.abort;
    for await (const batch of running.spool.outputs({ from: { ...from }, signal })) {
      if (isClosed() || signal.aborted) return;
      await exclusive(() => this.#tell(running, batch));
      if (batch.exit) return;
      running.bytes += batch.stdout.length + batch.stderr.length;
      if (running.bytes > MAX_OUTPUT_BYTES && running.reason === undefined)
        void this.stop("lost").catch((error: unknown) => this.#complain(error));
      await immediate();
    }
  }

  /** Its output cannot be read any more. */
  async #lose(running: Running, error: unknown): Promise<void> {
    const { writer, exclusive, commit } = this.#context;
    mustBeDamage(this.#context, error);
    await exclusive(async () => {
      clearTimeout(running.alarm);
      if (this.#running === running) this.#running = undefined;
      await tellDamage(this.#context, "the output of the command cannot be read", error);
      await this.#signal(running, "SIGKILL").catch((failure: unknown) => this.#complain(failure));
      const drafts = writer.drafts();
      loseCommand(this.#context, drafts);
      await commit(drafts);
      await running.spool.remove();
    });
    this.#runner.advance();
  }

  async #tell(running: Running, batch: OutputBatch): Promise<void> {
    const { writer, commit } = this.#context;
    const isLast = batch.exit !== undefined;
    const events = (["stdout", "stderr"] as const).flatMap((stream) =>
      running.streams[stream].take(batch[stream], { isLast }).map((piece): EventDraft => ({
        type: "command.output",
        source: "agent",
        data: { command_id: running.id, stream, ...piece },
      })),
    );
    if (batch.exit) events.push(endOf(running, batch.exit));
    if (events.length > 0) await commit(writer.drafts(events));
    if (!batch.exit) return;
    clearTimeout(running.alarm);
    if (this.#running === running) this.#running = undefined;
    await running.spool.remove();
    // An agent that had to be started anew could not be while this ran.
    this.#runner.advance();
  }

  async #signal({ spool, sandbox }: Running, signal: NodeJS.Signals): Promise<void> {
    let pid = await spool.pid();
    // One that has only just been started says who it is in a moment.
    for (let looks = LOOKS; pid === undefined && looks > 0; looks -= 1) {
      await sleep(LOOK_MS);
      pid = await spool.pid();
    }
    if (pid !== undefined) await sandbox.signal(pid, signal);
  }

  #complain(error: unknown): void {
    const { deps, writer } = this.#context;
    const facts = { session: writer.row.id, error: String(error) };
    deps.logger({ level: "warn", message: "a command could not be ended", ...facts });
  }

  /** What the session's commands are given, and what must not be told of them. */
  async #secrets(): Promise<{
    env: Readonly<Record<string, string>>;
    redactor: Redactor;
  }> {
    const { deps, writer } = this.#context;
    const { spec } = writer;
    const harness = deps.harness(spec);
    const read = await readCredentials(harness, spec);
    const env = Object.entries(read.secrets).filter(([name]) => !isKey(harness, name));
    const all = new Map([...deps.secrets, ...secretsOf(spec), ...read.values]);
    return { env: Object.fromEntries(env), redactor: createRedactor(all) };
  }

  /** Fails where the command could not be started now. */
  refuse({ command }: RunCommand): void {
    const { deps, writer } = this.#context;
    const { fold } = writer;
    if (deps.draining()) throw new SluiceError("draining", "try again in a moment: the server is restarting");
    if (fold.paused) throw new SluiceError("session_busy", "the sandbox is paused; resume it first");
    if (fold.command)
      throw new SluiceError("session_busy", "a command runs already; wait for its end, or interrupt it");
    if (fold.turn || fold.inbox.length > 0 || this.#runner.isBooting)
      throw new SluiceError(
        "session_busy",
        "a command cannot run while a turn does; wait for its end, or interrupt it",
      );
    if (Buffer.byteLength(command) > MAX_COMMAND_BYTES)
      throw new SluiceError(
        "too_large",
        `a command has at most ${MAX_COMMAND_BYTES} bytes; put it into a file`,
      );
  }

  #folder(id: string): string {
    const { deps, writer } = this.#context;
    return join(deps.spoolRoot, writer.row.id, id);
  }
}

/** A command that nobody follows any more is called lost. */
export function loseCommand({ writer }: SessionContext, drafts: Drafts): void {
  const { command } = writer.fold;
  if (command) drafts.add(toEnded(command.id, "failed", { reason: "lost" }));
}

/** Where nothing can be mounted, the workspace has another name than the one that every client knows. */
function toFolder(cwd: string | undefined, { paths }: Sandbox): string {
  const root = [PINNED.workspace, "/workspace"].find((root) => cwd !== undefined && isInside(cwd, root));
  return root === undefined ? (cwd ?? paths.workspace) : join(paths.workspace, relative(root, cwd ?? root));
}

/** Nobody types: what a command would read from a terminal is empty. */
function toArgv(command: string, cwd: string): string[] {
  return ["/bin/sh", "-c", 'cd -- "$1" && exec /bin/sh -c "$2" </dev/null', "sh", cwd, command];
}

function endOf({ id, reason }: Running, exit: ProcessExit): EventDraft {
  const code =
    exit.code ??
    (exit.signal === undefined ? undefined : 128 + constants.signals[exit.signal as NodeJS.Signals]);
  const why = reason ?? (exit.lost === true ? "lost" : "exited");
  const data = { ...(code === undefined ? {} : { exit_code: code }), reason: why };
  const isInterrupted = why === "interrupted" || why === "terminated" || (why === "exited" && code === 130);
  if (isInterrupted) return toEnded(id, "interrupted", data);
  return toEnded(id, why === "exited" && code === 0 ? "completed" : "failed", data);
}

function toEnded(
  id: string,
  status: EventData<"command.ended">["status"],
  rest: Pick<EventData<"command.ended">, "exit_code" | "reason">,
): EventDraft {
  return { type: "command.ended", source: "daemon", data: { command_id: id, status, ...rest } };
}
