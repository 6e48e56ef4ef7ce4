import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { SluiceError } from "../../contract/index.ts";
import type { SandboxState } from "../port.ts";
import { findRunnerProgram } from "../remote/programs.ts";
import { hashToken } from "../runner/edge.ts";
import { dialEdge } from "./dial.ts";
import { RUNNER_PORT, type EdgeMachine, type Machine, type Vendor } from "./vendor.ts";

/** A machine that was asked for counts as needed for this long: longer than the session's own pulse. */
const NEEDED_MS = 180_000;
/** A machine that nothing was heard of for longer is asked after. A stream of the runner lasts two minutes. */
const HEARD_MS = 150_000;
/** A machine's edge may know a port a little later than the machine. */
const EDGE_MS = 15_000;

interface LineOptions {
  readonly vendor: Vendor;
  readonly machine: Machine;
  readonly sandbox: string;
  readonly token: string;
  readonly isPaused: boolean;
}

/** The way to one machine: it starts the runner there where none answers, and wakes the machine where it is needed. */
export class MachineLine {
  readonly #options: LineOptions;
  #isPaused: boolean;
  #isAsleep = false;
  #isGone = false;
  #neededUntil = 0;
  #heardAt = Number.NEGATIVE_INFINITY;
  #renewedAt = performance.now();
  #repairing: Promise<void> | undefined;
  #waking: Promise<void> | undefined;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#isPaused = options.isPaused;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  dial = async (): Promise<Duplex> => {
    if (this.#isPaused) throw this.#away("it is paused. Resume the session first");
    if (this.#isAsleep) await this.#wakeIfNeeded();
    try {
      return await this.#open();
    } catch {
      this.#repairing ??= this.#repair().finally(() => (this.#repairing = undefined));
      await this.#repairing;
      return this.#untilOpen();
    }
  };

  /** Marks the machine as needed. Never fails: the next call of the runner reports what is wrong. */
  async touch(): Promise<void> {
    const now = performance.now();
    this.#neededUntil = now + NEEDED_MS;
    if (this.#isPaused) return;
    if (now - this.#heardAt > HEARD_MS) await this.look().catch(() => {});
    if (this.#isGone) return;
    if (this.#isAsleep) return this.#wakeIfNeeded().catch(() => {});
    const { machine, vendor } = this.#options;
    if (now - this.#renewedAt < vendor.renewMs) return;
    this.#renewedAt = now;
    await machine.renew().catch(() => (this.#renewedAt = now - vendor.renewMs));
  }

  /** What the vendor says. Fails where that is not known. */
  async look(): Promise<"running" | "asleep" | "gone"> {
    const { machine, vendor } = this.#options;
    const state = await machine.state().catch((error: unknown) => {
      throw vendor.toError(error);
    });
    this.#heardAt = performance.now();
    this.#isAsleep = state === "asleep";
    this.#isGone = state === "gone";
    return state;
  }

  async state(): Promise<SandboxState> {
    return this.look().catch(() => "unreachable" as const);
  }

  async pause(): Promise<void> {
    const { machine, vendor } = this.#options;
    this.#isPaused = true;
    try {
      await machine.pause?.();
      this.#isAsleep = true;
    } catch (error) {
      this.#isPaused = false;
      throw vendor.toError(error);
    }
  }

  async resume(): Promise<void> {
    await this.#wake();
    this.#isPaused = false;
    this.#neededUntil = performance.now() + NEEDED_MS;
  }

  /** Copies the runner's file, where it is missing, and starts it, where none answers. */
  async start(): Promise<void> {
    const { machine, vendor } = this.#options;
    try {
      await ("dial" in machine ? machine.prepare() : this.#startOn(machine));
    } catch (error) {
      throw error instanceof SluiceError ? error : vendor.toError(error);
    }
  }

  async #startOn(machine: EdgeMachine): Promise<void> {
    const { vendor, token } = this.#options;
    const content = await readFile(findRunnerProgram());
    const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
    const [, home = "", node = "", isThere] = FOUND.exec(await this.#run(machine, toFind(hash))) ?? [];
    const version = /^v(\d+)\./.exec(node);
    if (home === "" || !version || Number(version[1]) < 20) throw noNode(vendor, node);
    const root = `${home}/.sluice/runner`;
    const file = `${home}/.sluice/${hash}.cjs`;
    if (isThere !== "there") await machine.write(`${file}.part`, content);
    await machine.write(`${root}/token`, Buffer.from(hashToken(token)));
    const arrive = isThere === "there" ? "" : `mv '${file}.part' '${file}' && `;
    await this.#run(
      machine,
      `${arrive}chmod 600 '${root}/token' && node '${file}' edge '${root}' ${RUNNER_PORT}`,
    );
  }

  async #run(machine: EdgeMachine, command: string): Promise<string> {
    const { exitCode, output } = await machine.run(command);
    if (exitCode === 0) return output;
    throw this.#away(`the runner does not start there: ${output.trim().slice(-500)}`);
  }

  async #open(): Promise<Duplex> {
    const { machine, token } = this.#options;
    const stream = await ("dial" in machine
      ? machine.dial()
      : machine.address(RUNNER_PORT).then((address) => dialEdge(address, token)));
    this.#heardAt = performance.now();
    return stream;
  }

  async #untilOpen(): Promise<Duplex> {
    const giveUpAt = performance.now() + EDGE_MS;
    for (;;) {
      try {
        return await this.#open();
      } catch (error) {
        if (performance.now() > giveUpAt) throw this.#away((error as Error).message, error);
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }
  }

  async #repair(): Promise<void> {
    const state = await this.look();
    if (state === "gone") {
      const { vendor, sandbox } = this.#options;
      throw new SluiceError(
        "not_found",
        `${vendor.title} has no machine of the sandbox ${sandbox} any more.`,
      );
    }
    if (state === "asleep") return this.#wakeIfNeeded();
    // The runner was killed, or the edge is not ready. Another runner goes on with the files of the last.
    await this.start();
  }

  async #wakeIfNeeded(): Promise<void> {
    if (performance.now() > this.#neededUntil) throw this.#away("it sleeps, and nothing needs it");
    await this.#wake();
  }

  #wake(): Promise<void> {
    const { machine, vendor } = this.#options;
    const wake = async (): Promise<void> => {
      await (machine.wake ?? machine.renew).call(machine).catch((error: unknown) => {
        throw vendor.toError(error);
      });
      this.#isAsleep = false;
      this.#renewedAt = performance.now();
    };
    this.#waking ??= wake().finally(() => (this.#waking = undefined));
    return this.#waking;
  }

  #away(why: string, cause?: unknown): SluiceError {
    const { vendor, sandbox } = this.#options;
    const detail = `The sandbox ${sandbox} of ${vendor.title} cannot be reached now: ${why}.`;
    return new SluiceError("sandbox_unreachable", detail, {}, { cause });
  }
}

/** A login shell may print lines of its own. */
const FOUND = /^sluice:(\/[^:'\n]*):([^:\n]*):(\w*)$/m;

function toFind(hash: string): string {
  const node = `$(node --version 2>/dev/null || echo none)`;
  const isThere = `$([ -f "$HOME/.sluice/${hash}.cjs" ] && echo there)`;
  return `mkdir -p "$HOME/.sluice/runner" && chmod 700 "$HOME/.sluice" && printf 'sluice:%s:%s:%s\\n' "$HOME" "${node}" "${isThere}"`;
}

function noNode({ title }: Vendor, found: string): SluiceError {
  const what = found === "none" ? "has no node" : `has node ${found.slice(0, 40)}`;
  const detail = `The machine of ${title} ${what}, and the sandbox needs Node 20 or newer and the agent on its PATH. Name an image that has them in the session's image.`;
  return new SluiceError("unsupported_sandbox", detail);
}
