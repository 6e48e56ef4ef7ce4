import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError, type ProcessExit } from "../../contract/index.ts";
import type { Sandbox } from "../../sandbox/port.ts";
import { isAlive, type Spool } from "../../spool/index.ts";
import type { TanStackSpawn } from "./contract.ts";

/** How long a process may take to end when it is asked to, before it is made to. */
const GENTLE_MS = 2_000;
const BEGIN_MS = 30_000;
const LOOK_MS = 200;

/** What a command prints before everything else. */
export const BEGUN = "+";

/** A process of a sandbox whose streams lie in a spool: whoever does not read holds up nobody, and loses nothing. */
export class Spawned implements TanStackSpawn {
  readonly pid: number;
  readonly stdin: TanStackSpawn["stdin"];
  readonly #spool: Spool;
  readonly #sandbox: Sandbox;
  readonly #unread = new Set<Stream>(["stdout", "stderr"]);
  readonly #given = new AbortController();
  readonly #known = new AbortController();
  readonly #ended: Promise<number>;
  #resolve: (exit: ProcessExit) => void = () => {};
  #sent = 0;

  private constructor(pid: number, spool: Spool, sandbox: Sandbox) {
    this.pid = pid;
    this.#spool = spool;
    this.#sandbox = sandbox;
    this.#ended = new Promise<ProcessExit>((resolve) => (this.#resolve = resolve)).then(toExitCode);
    // Whoever reads hears of the end at once; where nobody does, it is looked for.
    const looked = until(() => spool.exit(), { signal: this.#known.signal });
    void looked.then((exit) => this.#tell(exit ?? { lost: true }));
    this.stdin = {
      write: async (text) => {
        await spool.send({ id: `input-${(this.#sent += 1)}`, at: 0, text });
      },
      end: () => spool.closeInput(),
    };
  }

  /** Of a process that says `BEGUN` first: what is signalled before that would only reach its wrapper. */
  static async of(spool: Spool, sandbox: Sandbox): Promise<Spawned> {
    const begun = async (): Promise<true | undefined> =>
      (await spool.length()) >= BEGUN.length || (await spool.exit()) !== undefined ? true : undefined;
    await until(begun, { signal: AbortSignal.timeout(BEGIN_MS), maxPauseMs: 10 });
    const pid = await spool.pid();
    if (pid === undefined) throw new SluiceError("internal", "The process was started and never began.");
    return new Spawned(pid, spool, sandbox);
  }

  get stdout(): AsyncIterable<string> {
    return this.#read("stdout");
  }

  get stderr(): AsyncIterable<string> {
    return this.#read("stderr");
  }

  wait(): Promise<number> {
    return this.#ended;
  }

  async kill(signal: NodeJS.Signals | number = "SIGTERM"): Promise<void> {
    const name = typeof signal === "string" ? signal : toSignal(signal);
    try {
      await this.#sandbox.signal(this.pid, name);
    } catch (error) {
      // One that is about to be gone belongs to nobody for a moment, and needs no signal.
      if (await this.#isGone()) return;
      throw error;
    }
    // Its wrapper died with it, and could not say so.
    if (name === "SIGKILL" && (await this.#isGone())) await this.#spool.killed();
  }

  /** Asks it to end, and sees to it. */
  async end(): Promise<void> {
    await this.kill("SIGTERM");
    const gone = await Promise.race([this.wait().then(() => true), sleep(GENTLE_MS, false, { ref: false })]);
    if (!gone) await this.kill("SIGKILL");
  }

  /** Whether its wrapper is, or is in a moment. */
  async #isGone(): Promise<boolean> {
    const look = async (): Promise<true | undefined> =>
      (await isAlive(this.#spool.folder)) ? undefined : true;
    return (await until(look, { signal: AbortSignal.timeout(GENTLE_MS) })) ?? false;
  }

  /** Whoever reads or waits hears no more of it. */
  abandon(): void {
    this.#given.abort();
    this.#tell({ lost: true });
  }

  #tell(exit: ProcessExit): void {
    this.#resolve(exit);
    this.#known.abort();
  }

  async *#read(stream: Stream): AsyncGenerator<string, void> {
    const decoder = new TextDecoder();
    const from = { stdout: BEGUN.length, stderr: 0 };
    for await (const batch of this.#spool.outputs({ from, signal: this.#given.signal })) {
      const text = decoder.decode(batch[stream], { stream: batch.exit === undefined });
      if (text !== "") yield text;
      if (batch.exit !== undefined) this.#tell(batch.exit);
    }
    this.#unread.delete(stream);
    if (this.#unread.size > 0 || this.#given.signal.aborted) return;
    // All is read, and how it ended is known.
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

/** Looks again and again, less and less often; nothing is found once the signal says so. */
async function until<T>(
  look: () => Promise<T | undefined>,
  { signal, maxPauseMs = LOOK_MS }: { signal: AbortSignal; maxPauseMs?: number },
): Promise<T | undefined> {
  for (let pause = 2; ; pause = Math.min(pause * 2, maxPauseMs)) {
    const found = await look();
    if (found !== undefined || signal.aborted) return found;
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}
