import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import { openSpool, type HostSpool, type Spool } from "../../spool/index.ts";
import { toFolderName } from "../host/folder.ts";
import { createLocalProvider } from "../local/provider.ts";
import type { HostProvider, HostSandbox, NamedProcess, SandboxSpec } from "../port.ts";
import { Epochs } from "./epochs.ts";
import { RunnerListeners } from "./listeners.ts";
import { RunnerTrees } from "./trees.ts";

/** A sandbox as its server sees it. */
export interface SandboxFacts {
  readonly id: string;
  readonly paths: HostSandbox["paths"];
  readonly shortcomings: readonly string[];
  readonly canPause: boolean;
  /** The port of the machine's loopback that stands for the model gateway. */
  readonly gateway: number;
}

/** How long a started process may take until it writes its pid. */
const BEGIN_MS = 15_000;

/** The sandboxes of one user account of this machine, in one folder. Their whole state is on its disk: another runner may take over. */
export class RunnerSandboxes {
  readonly trees: RunnerTrees;
  readonly listeners: RunnerListeners;
  readonly #root: string;
  readonly #beginMs: number;
  readonly #epochs: Epochs;
  readonly #provider: HostProvider;
  readonly #open = new Map<string, HostSandbox>();
  readonly #starting = new Map<string, Promise<void>>();
  /** One object per spool: it keeps the input of several callers in order. */
  readonly #spools = new Map<string, Map<string, HostSpool>>();

  constructor(root: string, { beginMs = BEGIN_MS }: { beginMs?: number } = {}) {
    this.#root = root;
    this.#beginMs = beginMs;
    this.#epochs = new Epochs(root);
    this.trees = new RunnerTrees(root);
    this.listeners = new RunnerListeners(root);
    this.#provider = createLocalProvider({ root: join(root, "sandboxes") });
  }

  async create(spec: SandboxSpec): Promise<SandboxFacts> {
    const { directory: _, ...rest } = spec;
    const sandbox = await this.#provider.create(rest, this.#claim(spec.id));
    this.#open.set(spec.id, sandbox);
    return this.#toFacts(sandbox);
  }

  async facts(id: string): Promise<SandboxFacts> {
    return this.#toFacts(await this.demand(id));
  }

  async demand(id: string): Promise<HostSandbox> {
    const known = await this.#find(id);
    if (!known) throw new SluiceError("not_found", `There is no sandbox ${id} here.`);
    this.#open.set(id, known);
    return known;
  }

  /** May be repeated: a runner that was killed in it has left a part, also where the sandbox is gone. */
  async destroy(id: string): Promise<void> {
    await (await this.#find(id))?.destroy();
    this.#open.delete(id);
    this.#spools.delete(id);
    await rm(this.#claim(id).spools, { recursive: true, force: true });
    await this.trees.forget(id);
    await this.listeners.forget(id);
    // Its epoch stays: a late call of an earlier server would create the sandbox again.
    this.#epochs.sweep((folder) => existsSync(join(this.#root, "sandboxes", folder)));
  }

  async spool(id: string, name: string): Promise<HostSpool> {
    const spool = await (await this.demand(id)).processes.open(demandName(name));
    if (!spool) throw new SluiceError("not_found", `There is no process ${name} in the sandbox ${id}.`);
    const known = this.#spools.get(id) ?? new Map<string, HostSpool>();
    this.#spools.set(id, known);
    if (!known.has(name)) known.set(name, spool as HostSpool);
    return known.get(name) as HostSpool;
  }

  async remove(id: string, name: string): Promise<void> {
    await (await this.spool(id, name)).remove();
    this.#spools.get(id)?.delete(name);
  }

  /** Starts a process once per name: a server that lost the answer asks again. */
  start(id: string, process: NamedProcess): Promise<void> {
    const key = `${id}/${demandName(process.name)}`;
    const starting = this.#starting.get(key) ?? this.#start(id, process);
    this.#starting.set(key, starting);
    return starting.finally(() => this.#starting.delete(key));
  }

  /** Refuses a server whose session another server has taken over. */
  admit(id: string, epoch: number | undefined): void {
    if (epoch !== undefined) this.#epochs.admit(id, epoch);
  }

  async #find(id: string): Promise<HostSandbox | undefined> {
    return this.#open.get(id) ?? this.#provider.connect(id, this.#claim(id));
  }

  async #start(id: string, process: NamedProcess): Promise<void> {
    const sandbox = await this.demand(id);
    const { name } = process;
    const earlier = await sandbox.processes.open(name);
    // A runner that was killed in a start may have started it, and the wrapper writes its pid in a moment.
    if (earlier && (await this.#hasBegun(earlier))) return;
    this.#spools.get(id)?.delete(name);
    // A wrapper that comes even later must not begin beside the new one.
    if (earlier) await this.#discard(sandbox, name);
    if (await this.#hasBegun(await sandbox.processes.start(process))) return;
    await this.#discard(sandbox, name);
    const detail = `The process ${name} did not begin within ${this.#beginMs / 1000} seconds. Try again.`;
    throw new SluiceError("timeout", detail);
  }

  /** Ends a start. Without its folder a wrapper runs no command; one that runs already is killed. */
  async #discard(sandbox: HostSandbox, name: string): Promise<void> {
    const { spools } = this.#claim(sandbox.id);
    const aside = join(spools, `discarded-${randomUUID()}`);
    await rename(join(spools, name), aside);
    const spool = await openSpool(aside);
    const pid = await spool?.pid();
    if (pid !== undefined) await sandbox.signal(pid, "SIGKILL");
    await rm(aside, { recursive: true, force: true });
  }

  async #hasBegun(spool: Spool): Promise<boolean> {
    const deadline = performance.now() + this.#beginMs;
    while (performance.now() < deadline) {
      if ((await spool.pid()) !== undefined) return true;
      await sleep(5);
    }
    return false;
  }

  async #toFacts({ id, paths, shortcomings = [], pause }: HostSandbox): Promise<SandboxFacts> {
    const gateway = await this.listeners.port(id, "gateway");
    return { id, paths, shortcomings, canPause: pause !== undefined, gateway };
  }

  #claim(id: string): { spools: string; epoch: number } {
    return { spools: join(this.#root, "spools", toFolderName(id)), epoch: 0 };
  }
}

/** Refuses a name that is not safe as the name of a folder. */
function demandName(name: string): string {
  if (/^[\w-]{1,128}$/.test(name)) return name;
  throw new SluiceError("invalid_request", `"${name}" is no name of a process.`);
}
