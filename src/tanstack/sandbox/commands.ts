import { randomUUID } from "node:crypto";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ProcessExit, SluiceError } from "../../contract/index.ts";
import { toMappedPath } from "../../sandbox/host/files/paths.ts";
import type { HostSandbox } from "../../sandbox/port.ts";
import { createSpool, type Spool } from "../../spool/index.ts";
import type {
  TanStackExecResult,
  TanStackProcess,
  TanStackProcessOptions,
  TanStackSpawn,
} from "./contract.ts";

interface CommandsOptions {
  readonly sandbox: HostSandbox;
  /** The folder of the commands' streams. */
  readonly folder: string;
  /** The environment of a command, read at the command's start. */
  readonly env: () => Readonly<Record<string, string>>;
  /** Files and folders of this host that the sandbox's programs need. */
  readonly needs: readonly string[];
  /** The addresses of this machine that a command may reach. */
  readonly hosts: () => readonly string[];
}

/** Shell commands in a sandbox. */
export class Commands implements TanStackProcess {
  readonly #options: CommandsOptions;
  readonly #running = new Set<Spawned>();

  constructor(options: CommandsOptions) {
    this.#options = options;
  }

  exec = async (command: string, options: TanStackProcessOptions = {}): Promise<TanStackExecResult> => {
    const spawned = await this.#start(command, options, { input: false });
    const [stdout, stderr, exitCode] = await Promise.all([
      collect(spawned.stdout),
      collect(spawned.stderr),
      spawned.wait(),
    ]);
    options.signal?.throwIfAborted();
    return { stdout, stderr, exitCode };
  };

  spawn = (command: string, options: TanStackProcessOptions = {}): Promise<Spawned> =>
    this.#start(command, options, { input: true });

  /** Ends the readers of all commands. The end of the sandbox has ended the processes. */
  abandon(): void {
    for (const spawned of this.#running) spawned.abandon();
  }

  async #start(
    command: string,
    { cwd, env = {}, signal }: TanStackProcessOptions,
    { input }: { input: boolean },
  ): Promise<Spawned> {
    signal?.throwIfAborted();
    const { sandbox, folder, needs, hosts } = this.#options;
    const spool = await createSpool(join(folder, randomUUID()));
    const argv = toArgv(command, { cwd: toFolder(cwd, sandbox), input });
    const launch = { argv, env: { ...this.#options.env(), ...env }, needs, hosts: hosts() };
    if (input) await spool.begin((wrapped) => sandbox.spawn({ launch, ...wrapped }));
    else await sandbox.spawn({ launch, wrapper: spool.wrapper });
    const spawned = await Spawned.of(spool, sandbox);
    this.#running.add(spawned);
    const stop = (): void => void spawned.end().catch(() => {});
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    void spawned.wait().then(() => {
      signal?.removeEventListener("abort", stop);
      this.#running.delete(spawned);
    });
    return spawned;
  }
}

/** The program that runs a command. Without `input` the command's stdin is empty. */
function toArgv(command: string, { cwd, input }: { cwd: string; input: boolean }): string[] {
  const run = `printf ${BEGUN}; cd -- "$1" && exec /bin/sh -c "$2"${input ? "" : " </dev/null"}`;
  return ["/bin/sh", "-c", run, "sh", cwd, command];
}

/** The folder of a command. Without isolation, a path of the sandbox is mapped to the path on this host. */
export function toFolder(cwd: string | undefined, { paths, isolated }: HostSandbox): string {
  if (cwd === undefined) return paths.workspace;
  if (isolated && cwd.startsWith("/")) return cwd;
  return toMappedPath(cwd, paths, paths.workspace).host;
}

async function collect(texts: AsyncIterable<string>): Promise<string> {
  const parts: string[] = [];
  for await (const text of texts) parts.push(text);
  return parts.join("");
}

/** The grace between SIGTERM and SIGKILL. */
const GRACE_MS = 2_000;
const BEGIN_MS = 30_000;
const MAX_PAUSE_MS = 200;

/** The first output of each command: it shows that the command has begun. */
const BEGUN = "+";

/** A process in a sandbox. Its streams are in a spool, so that a slow reader blocks nothing and loses nothing. */
export class Spawned implements TanStackSpawn {
  readonly pid: number;
  readonly stdin: TanStackSpawn["stdin"];
  readonly #spool: Spool;
  readonly #sandbox: HostSandbox;
  readonly #unread = new Set<Stream>(["stdout", "stderr"]);
  readonly #abandoned = new AbortController();
  readonly #exitKnown = new AbortController();
  readonly #exitCode: Promise<number>;
  #resolveExit: (exit: ProcessExit) => void = () => {};
  #inputs = 0;

  private constructor(pid: number, spool: Spool, sandbox: HostSandbox) {
    this.pid = pid;
    this.#spool = spool;
    this.#sandbox = sandbox;
    this.#exitCode = new Promise<ProcessExit>((resolve) => (this.#resolveExit = resolve)).then(toExitCode);
    // A reader of the streams sees the exit at once. Without a reader, the spool is polled.
    const polled = until(() => spool.exit(), { signal: this.#exitKnown.signal });
    void polled.then((exit) => this.#settle(exit ?? { lost: true }));
    this.stdin = {
      write: async (text) => {
        await spool.send({ id: `input-${(this.#inputs += 1)}`, at: 0, text });
      },
      end: () => spool.closeInput(),
    };
  }

  /** Waits for `BEGUN`: an earlier signal would reach only the wrapper. */
  static async of(spool: Spool, sandbox: HostSandbox): Promise<Spawned> {
    const begun = async (): Promise<true | undefined> =>
      (await spool.length()) >= BEGUN.length || (await spool.exit()) !== undefined ? true : undefined;
    await until(begun, { signal: AbortSignal.timeout(BEGIN_MS), maxPauseMs: 10 });
    const pid = await spool.pid();
    if (pid === undefined)
      throw new SluiceError("internal", "The process was started, but its command did not begin.");
    return new Spawned(pid, spool, sandbox);
  }

  get stdout(): AsyncIterable<string> {
    return this.#read("stdout");
  }

  get stderr(): AsyncIterable<string> {
    return this.#read("stderr");
  }

  wait(): Promise<number> {
    return this.#exitCode;
  }

  async kill(signal: NodeJS.Signals | number = "SIGTERM"): Promise<void> {
    const name = typeof signal === "string" ? signal : toSignal(signal);
    try {
      await this.#sandbox.signal(this.pid, name);
    } catch (error) {
      // A process that is about to end needs no signal.
      if (await this.#isGone()) return;
      throw error;
    }
    // SIGKILL ends the wrapper too, which then leaves no exit status.
    if (name === "SIGKILL" && (await this.#isGone())) await this.#spool.killed();
  }

  /** Sends SIGTERM, then SIGKILL after the grace. */
  async end(): Promise<void> {
    await this.kill("SIGTERM");
    const gone = await Promise.race([this.wait().then(() => true), sleep(GRACE_MS, false, { ref: false })]);
    if (!gone) await this.kill("SIGKILL");
  }

  /** Whether the process's wrapper has ended, or ends within the grace. */
  async #isGone(): Promise<boolean> {
    const look = async (): Promise<true | undefined> => ((await this.#spool.isAlive()) ? undefined : true);
    return (await until(look, { signal: AbortSignal.timeout(GRACE_MS) })) ?? false;
  }

  /** Ends the readers of the streams and resolves `wait`. */
  abandon(): void {
    this.#abandoned.abort();
    this.#settle({ lost: true });
  }

  #settle(exit: ProcessExit): void {
    this.#resolveExit(exit);
    this.#exitKnown.abort();
  }

  async *#read(stream: Stream): AsyncGenerator<string, void> {
    const decoder = new TextDecoder();
    // The output of a command that has ended may still be on its way, `BEGUN` included.
    const from = { stdout: 0, stderr: 0 };
    let mark = stream === "stdout" ? BEGUN : "";
    for await (const batch of this.#spool.outputs({ from, signal: this.#abandoned.signal })) {
      let text = decoder.decode(batch[stream], { stream: batch.exit === undefined });
      if (text.startsWith(mark)) [text, mark] = [text.slice(mark.length), ""];
      if (text !== "") yield text;
      if (batch.exit !== undefined) this.#settle(batch.exit);
    }
    this.#unread.delete(stream);
    if (this.#unread.size > 0 || this.#abandoned.signal.aborted) return;
    // Both streams are read to the end.
    await this.#spool.remove();
  }
}

type Stream = "stdout" | "stderr";

function toExitCode({ code, signal }: ProcessExit): number {
  if (code !== undefined) return code;
  return 128 + (constants.signals[(signal ?? "SIGKILL") as NodeJS.Signals] ?? 0);
}

function toSignal(number: number): NodeJS.Signals {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  if (found) return found[0] as NodeJS.Signals;
  throw new SluiceError("invalid_request", `There is no signal ${number}.`);
}

/** Polls with growing pauses until a value is found or the signal aborts. */
async function until<T>(
  look: () => Promise<T | undefined>,
  { signal, maxPauseMs = MAX_PAUSE_MS }: { signal: AbortSignal; maxPauseMs?: number },
): Promise<T | undefined> {
  for (let pause = 2; ; pause = Math.min(pause * 2, maxPauseMs)) {
    const found = await look();
    if (found !== undefined || signal.aborted) return found;
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}
