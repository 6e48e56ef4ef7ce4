import { setTimeout as sleep } from "node:timers/promises";
import { defined } from "../../contract/own-keys.ts";
import type { EventData, EventDraft, ProcessExit } from "../../contract/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { exitCodeOf, type OutputBatch, type Spool } from "../../spool/index.ts";
import type { OpenCommand } from "../fold/session-fold.ts";
import { isLate } from "../lock.ts";
import { RedactedStream, type Redactor } from "../secrets/redact.ts";

export type CommandReason = NonNullable<EventData<"command.ended">["reason"]>;

/** How long a command gets to end by itself after a signal. */
const GENTLE_MS = 1_500;
const KILLS = 5;
const LOOKS = 100;
const LOOK_MS = 10;
/** The most that one command may print. */
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;

/** A command that runs in the sandbox: its spool, its output as events, its end by signals. */
export class RunningCommand {
  readonly id: string;
  readonly spool: Spool;
  readonly #sandbox: Sandbox;
  readonly #told: OpenCommand["told"];
  readonly #streams: Readonly<Record<"stdout" | "stderr", RedactedStream>>;
  readonly #abort = new AbortController();
  /** The engine's reason to end the command. */
  #reason: CommandReason | undefined;
  #alarm: NodeJS.Timeout | undefined;
  #bytes: number;
  /** Settles when the end of the command is in the log, or the reading has stopped. */
  #done: Promise<void> = Promise.resolve();

  constructor(
    { id, told }: OpenCommand,
    { spool, sandbox, redactor }: { spool: Spool; sandbox: Sandbox; redactor: Redactor },
  ) {
    this.id = id;
    this.spool = spool;
    this.#sandbox = sandbox;
    this.#told = { ...told };
    this.#streams = {
      stdout: new RedactedStream({ redactor, offset: told.stdout }),
      stderr: new RedactedStream({ redactor, offset: told.stderr }),
    };
    this.#bytes = told.stdout + told.stderr;
  }

  get isDetached(): boolean {
    return this.#abort.signal.aborted;
  }

  /** Whether it has printed more than it may, and no stop is under way. */
  get isTooLong(): boolean {
    return this.#bytes > MAX_OUTPUT_BYTES && this.#reason === undefined;
  }

  /** Starts the reading of its output. */
  read(reading: () => Promise<void>): void {
    this.#done = reading();
  }

  outputs(): AsyncIterable<OutputBatch> {
    return this.spool.outputs({ from: { ...this.#told }, signal: this.#abort.signal });
  }

  /** Calls `ring` once, unless the command ends before. */
  ringIn(ms: number, ring: () => void): void {
    this.#alarm = setTimeout(ring, Math.min(Math.max(ms, 0), 2 ** 30));
    this.#alarm.unref();
  }

  clearAlarm(): void {
    clearTimeout(this.#alarm);
  }

  /** The events of a batch of output; with the command's end in the last batch. */
  toEvents(batch: OutputBatch): EventDraft[] {
    const isLast = batch.exit !== undefined;
    if (!isLast) this.#bytes += batch.stdout.length + batch.stderr.length;
    const events = (["stdout", "stderr"] as const).flatMap((stream) =>
      this.#streams[stream].take(batch[stream], { isLast }).map((piece): EventDraft => ({
        type: "command.output",
        source: "agent",
        data: { command_id: this.id, stream, ...piece },
      })),
    );
    return batch.exit ? [...events, endOf(this.id, this.#reason, batch.exit)] : events;
  }

  /** Ends the command, first by a gentle signal. Its end has the reason of the first call. */
  async stop(reason: CommandReason): Promise<void> {
    const isFirst = this.#reason === undefined;
    this.#reason ??= reason;
    try {
      await this.signal("SIGINT");
    } catch (error) {
      // A provider may have no signals; then the command ends by itself.
      if (isFirst) this.#reason = undefined;
      throw error;
    }
    for (let tries = KILLS; tries > 0 && (await isLate(this.#done, GENTLE_MS)); tries -= 1) {
      await this.signal("SIGKILL");
      if (!(await this.spool.isAlive())) await this.spool.killed();
    }
    await this.#done;
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    let pid = await this.spool.pid();
    // The wrapper of a new command writes its pid in a moment.
    for (let looks = LOOKS; pid === undefined && looks > 0; looks -= 1) {
      await sleep(LOOK_MS);
      pid = await this.spool.pid();
    }
    if (pid !== undefined) await this.#sandbox.processes.signal(this.id, signal);
  }

  /** Stops reading. The command runs on. */
  async detach(): Promise<void> {
    this.clearAlarm();
    this.#abort.abort();
    await this.#done;
  }
}

function endOf(id: string, reason: CommandReason | undefined, exit: ProcessExit): EventDraft {
  const code = exitCodeOf(exit);
  const why = reason ?? (exit.lost === true ? "lost" : "exited");
  const data = defined({ exit_code: code, reason: why });
  const isInterrupted = why === "interrupted" || why === "terminated" || (why === "exited" && code === 130);
  if (isInterrupted) return commandEnded(id, "interrupted", data);
  return commandEnded(id, why === "exited" && code === 0 ? "completed" : "failed", data);
}

export function commandEnded(
  id: string,
  status: EventData<"command.ended">["status"],
  rest: Pick<EventData<"command.ended">, "exit_code" | "reason">,
): EventDraft {
  return { type: "command.ended", source: "daemon", data: { command_id: id, status, ...rest } };
}
