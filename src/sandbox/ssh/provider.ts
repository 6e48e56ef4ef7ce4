import { SluiceError } from "../../contract/index.ts";
import type { Detected, ListedSandbox, Sandbox, SandboxProvider } from "../port.ts";
import { findRunnerProgram } from "../remote/programs.ts";
import { RemoteProvider, RemoteRecords } from "../remote/provider.ts";
import { parseSshAddress } from "./address.ts";
import { loadSsh, SshMachine } from "./connection.ts";

export interface SshProviderOptions {
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
  /** The runner's file; by default the one of this package. */
  readonly program?: string;
  /** The environment with the settings of keys and known hosts. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Runs agents on other machines by SSH, one provider per address: `ssh://user@host[:port]`. */
export function createSshProvider(options: SshProviderOptions): SandboxProvider {
  return new SshProviders(options);
}

class SshProviders implements SandboxProvider {
  readonly id = "ssh";
  readonly isolated = false;
  readonly hasPrograms = true;
  readonly #options: SshProviderOptions;
  readonly #records: RemoteRecords;
  readonly #known = new Map<string, RemoteProvider>();

  constructor(options: SshProviderOptions) {
    this.#options = options;
    this.#records = new RemoteRecords(options.records);
  }

  named(name: string): SandboxProvider | undefined {
    const address = parseSshAddress(name);
    if (!address) return undefined;
    const known = this.#known.get(address.name);
    if (known) return known;
    const { env, program = findRunnerProgram() } = this.#options;
    const machine = new SshMachine(address, { program, ...(env ? { env } : {}) });
    const provider = new RemoteProvider({ id: address.name, dial: machine.dial, records: this.#records });
    this.#known.set(address.name, provider);
    return provider;
  }

  async detect(): Promise<Detected> {
    return loadSsh().then(
      () => ({ available: true }),
      () => ({ available: false, reason: "the package ssh2 is missing", remedy: "npm install ssh2" }),
    );
  }

  async create(): Promise<Sandbox> {
    throw new SluiceError("invalid_request", "Name the machine of the sandbox: ssh://user@host[:port].");
  }

  async connect(id: string): Promise<Sandbox | undefined> {
    const record = (await this.#records.list()).find((found) => found.id === id);
    return record && this.named(record.provider)?.connect(id);
  }

  async list(): Promise<ListedSandbox[]> {
    return (await this.#records.list()).filter(({ provider }) => provider.startsWith("ssh:"));
  }
}
