import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import type { HostSpool, Spool } from "../../spool/index.ts";
import { toFolderName } from "../host/folder.ts";
import { createLocalProvider } from "../local/provider.ts";
import type { HostProvider, HostSandbox, NamedProcess, SandboxSpec } from "../port.ts";
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

/** The sandboxes of one account, in one folder. Their whole state is on its disk: another runner may take over. */
export class RunnerSandboxes {
  readonly trees: RunnerTrees;
  readonly listeners: RunnerListeners;
  readonly #root: string;
  readonly #provider: HostProvider;
  readonly #open = new Map<string, HostSandbox>();
  readonly #starting = new Map<string, Promise<void>>();
  /** One object per spool: it keeps the input of several callers in order. */
  readonly #spools = new Map<string, Map<string, HostSpool>>();

  constructor(root: string) {
    this.#root = root;
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
    const known = this.#open.get(id) ?? (await this.#provider.connect(id, this.#claim(id)));
    if (!known) throw new SluiceError("not_found", `There is no sandbox ${id} here.`);
    this.#open.set(id, known);
    return known;
  }

  async destroy(id: string): Promise<void> {
    await (await this.demand(id)).destroy();
    this.#open.delete(id);
    this.#spools.delete(id);
    await rm(this.#claim(id).spools, { recursive: true, force: true });
    await rm(this.#epochFile(id), { force: true });
    await this.trees.forget(id);
    await this.listeners.forget(id);
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
    if (epoch === undefined) return;
    const file = this.#epochFile(id);
    const known = readEpoch(file);
    if (epoch < known) {
      const detail = `The sandbox ${id} belongs to epoch ${known} of its session, and this call has ${epoch}.`;
      throw new SluiceError("fenced", detail);
    }
    if (epoch === known) return;
    mkdirSync(join(this.#root, "epochs"), { recursive: true, mode: 0o700 });
    writeFileSync(`${file}.new`, String(epoch), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }

  async #start(id: string, process: NamedProcess): Promise<void> {
    const sandbox = await this.demand(id);
    const earlier = await sandbox.processes.open(process.name);
    // A runner that was killed in a start may have started it, and the wrapper writes its pid in a moment.
    if (earlier && (await hasBegun(earlier))) return;
    this.#spools.get(id)?.delete(process.name);
    await hasBegun(await sandbox.processes.start(process));
  }

  async #toFacts({ id, paths, shortcomings = [], pause }: HostSandbox): Promise<SandboxFacts> {
    const gateway = await this.listeners.port(id, "gateway");
    return { id, paths, shortcomings, canPause: pause !== undefined, gateway };
  }

  #claim(id: string): { spools: string; epoch: number } {
    return { spools: join(this.#root, "spools", toFolderName(id)), epoch: 0 };
  }

  #epochFile(id: string): string {
    return join(this.#root, "epochs", toFolderName(id));
  }
}

const BEGIN_MS = 5_000;

async function hasBegun(spool: Spool): Promise<boolean> {
  const deadline = performance.now() + BEGIN_MS;
  while (performance.now() < deadline) {
    if ((await spool.pid()) !== undefined) return true;
    await sleep(5);
  }
  return false;
}

function readEpoch(file: string): number {
  try {
    return Number(readFileSync(file, "utf8")) || 0;
  } catch {
    return 0;
  }
}

/** A name is a folder. */
function demandName(name: string): string {
  if (/^[\w-]{1,128}$/.test(name)) return name;
  throw new SluiceError("invalid_request", `"${name}" is no name of a process.`);
}
