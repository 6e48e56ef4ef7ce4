import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "../../contract/index.ts";
import { toFolderName } from "../host/folder.ts";
import type {
  Detected,
  ListedSandbox,
  NetworkPolicy,
  SandboxClaim,
  SandboxProvider,
  SandboxSpec,
} from "../port.ts";
import type { SandboxFacts } from "../runner/sandboxes.ts";
import { SandboxCalls } from "./calls.ts";
import { RunnerClient } from "./client.ts";
import type { Dial } from "./dial.ts";
import { OwnPrograms } from "./programs.ts";
import { RemoteSandbox, type MachineControl } from "./sandbox.ts";
import { isMissing } from "./spool.ts";

interface RemoteProviderOptions {
  /** The name in sessions and events. */
  readonly id: string;
  readonly dial: Dial;
  readonly records: RemoteRecords;
  readonly isolated?: boolean;
  /** Removes the machine, where it has one sandbox only. */
  readonly remove?: () => Promise<void>;
  readonly shortcomings?: readonly string[];
  /** What the machine's vendor can do, in place of the runner. */
  readonly machine?: MachineControl;
}

/** Sandboxes behind the runner of another machine. */
export class RemoteProvider implements SandboxProvider {
  readonly id: string;
  readonly isolated: boolean;
  readonly hasPrograms = true;
  readonly #options: RemoteProviderOptions;
  readonly #client: RunnerClient;
  readonly #programs: OwnPrograms;

  constructor(options: RemoteProviderOptions) {
    this.id = options.id;
    this.isolated = options.isolated ?? false;
    this.#options = options;
    this.#client = new RunnerClient(options.id, options.dial);
    this.#programs = new OwnPrograms(this.#client);
  }

  async detect(): Promise<Detected> {
    try {
      await this.#client.call("/v1/hello", { method: "GET" });
      return { available: true };
    } catch (error) {
      return { available: false, reason: (error as Error).message };
    }
  }

  /** Reaches the machine, so that a wrong address or key fails with the session's creation. */
  async check(spec: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    RemoteProvider.refuse(this.id, spec);
    await this.#client.call("/v1/hello", { method: "GET" });
  }

  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<RemoteSandbox> {
    RemoteProvider.refuse(this.id, spec);
    const { id, session } = spec;
    // Before the sandbox: one whose making was interrupted is found, and ended with its session.
    await this.#options.records.keep({
      id,
      provider: this.id,
      ...(session === undefined ? {} : { session }),
    });
    const calls = new SandboxCalls(this.#client, id, claim?.epoch);
    return this.#open(calls, await calls.repeat<SandboxFacts>("create", toFarSpec(spec)));
  }

  async connect(id: string, claim?: SandboxClaim): Promise<RemoteSandbox | undefined> {
    const calls = new SandboxCalls(this.#client, id, claim?.epoch);
    try {
      const sandbox = this.#open(calls, await calls.repeat<SandboxFacts>("facts"));
      await sandbox.resumeGateway();
      return sandbox;
    } catch (error) {
      if (!isMissing(error)) throw error;
      return undefined;
    }
  }

  /** A sandbox of known facts, without a call: its machine may sleep. */
  async open(facts: SandboxFacts, claim?: SandboxClaim): Promise<RemoteSandbox> {
    const sandbox = this.#open(new SandboxCalls(this.#client, facts.id, claim?.epoch), facts);
    await sandbox.resumeGateway();
    return sandbox;
  }

  async list(): Promise<ListedSandbox[]> {
    return (await this.#options.records.list()).filter(({ provider }) => provider === this.id);
  }

  close(): void {
    this.#client.close();
  }

  #open(calls: SandboxCalls, facts: SandboxFacts): RemoteSandbox {
    const { remove, machine, shortcomings = [] } = this.#options;
    return new RemoteSandbox({
      provider: this.id,
      isolated: this.isolated,
      ...(remove ? { remove } : {}),
      ...(machine ? { machine } : {}),
      facts,
      shortcomings: [...shortcomings, ...facts.shortcomings],
      calls,
      programs: this.#programs,
      records: this.#options.records.folder,
      destroyed: () => this.#options.records.forget(facts.id),
    });
  }

  static refuse(
    name: string,
    {
      directory,
      network,
      image,
    }: { directory?: string | undefined; network?: NetworkPolicy; image?: string },
  ): void {
    if (directory !== undefined) {
      const detail = `${name} is another machine, which does not have the folder ${directory}. Leave the directory out, and send the files (sluice cp), or let the agent clone them.`;
      throw new SluiceError("capability_missing", detail, { directory });
    }
    if (image !== undefined)
      throw new SluiceError("capability_missing", `${name} has no images. Leave the image out.`, {
        image,
      });
    if (network === undefined || network.mode === "full") return;
    if (network.mode === "allow" && network.hosts.includes("*")) return;
    const detail = `${name} cannot keep an agent from any host. Ask for the full network, or use bwrap or docker.`;
    throw new SluiceError("capability_missing", detail, { network });
  }
}

function toFarSpec({ session, env, limits }: SandboxSpec): object {
  return { session, env, limits };
}

interface RemoteRecord extends ListedSandbox {
  readonly provider: string;
}

/** Which sandboxes this server has on other machines: they can be found without asking any of those. */
export class RemoteRecords {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  async keep(record: RemoteRecord): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const file = this.#file(record.id);
    await writeFile(`${file}.new`, JSON.stringify(record), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }

  async list(): Promise<RemoteRecord[]> {
    const names = (await readdir(this.folder).catch(() => [])).filter((name) => name.endsWith(".json"));
    const texts = names.map((name) => readFile(join(this.folder, name), "utf8").catch(() => ""));
    return (await Promise.all(texts)).map(parseRecord).filter((record) => record !== undefined);
  }

  async forget(id: string): Promise<void> {
    await rm(this.#file(id), { force: true });
  }

  #file(id: string): string {
    return join(this.folder, `${toFolderName(id)}.json`);
  }
}

function parseRecord(text: string): RemoteRecord | undefined {
  try {
    const found = JSON.parse(text) as Partial<RemoteRecord> | null;
    const isOne = typeof found?.id === "string" && typeof found.provider === "string";
    return isOne ? (found as RemoteRecord) : undefined;
  } catch {
    return undefined;
  }
}
