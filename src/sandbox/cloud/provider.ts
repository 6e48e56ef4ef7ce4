import { randomBytes } from "node:crypto";
import { SluiceError } from "../../contract/index.ts";
import type {
  Detected,
  ListedSandbox,
  Sandbox,
  SandboxClaim,
  SandboxLimits,
  SandboxProvider,
  SandboxSpec,
} from "../port.ts";
import { RemoteProvider } from "../remote/provider.ts";
import { MachineLine } from "./machine.ts";
import { CloudRecords, type CloudRecord } from "./records.ts";
import type { Machine, Vendor } from "./vendor.ts";

interface OpenMachine {
  readonly id: string;
  readonly machine: Machine;
  readonly line: MachineLine;
  readonly provider: RemoteProvider;
}

/** Runs each sandbox on a vendor's machine of its own, behind the runner there. */
export class CloudProvider implements SandboxProvider {
  readonly id: string;
  readonly isolated = true;
  readonly hasPrograms = true;
  readonly #vendor: Vendor;
  readonly #records: CloudRecords;
  readonly #open = new Map<string, OpenMachine>();

  constructor(vendor: Vendor, records: string) {
    this.id = vendor.id;
    this.#vendor = vendor;
    this.#records = new CloudRecords(records);
  }

  detect(): Promise<Detected> {
    return this.#vendor.detect();
  }

  async check(spec: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    this.#refuse(spec);
    await this.#vendor.check(spec);
  }

  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<Sandbox> {
    this.#refuse(spec);
    const { id, session } = spec;
    const vendor = this.#vendor;
    const known = await this.#find(id);
    const record = { id, provider: this.id, account: vendor.account };
    const token = known?.token ?? randomBytes(32).toString("base64url");
    // Before the machine: one whose making was interrupted is found, and ended with its session.
    await this.#records.keep({ ...record, token, ...(session === undefined ? {} : { session }) });
    const machine = (await this.#existing(known)) ?? (await this.#made(spec));
    await this.#records.keep({ ...record, machine, isPaused: false });
    const { line, provider } = this.#machine({ ...record, machine, token });
    void line.touch();
    await line.start().catch(async (error: unknown) => {
      // A machine that can never run an agent costs money.
      if (error instanceof SluiceError && error.code === "unsupported_sandbox") await this.#remove(id);
      throw error;
    });
    const { network: _, image: __, limits, ...rest } = spec;
    const sandbox = await provider.create({ ...rest, ...toOwnLimits(limits, vendor) }, claim);
    await this.#records.keep({ ...record, facts: sandbox.facts });
    return sandbox;
  }

  /** Undefined only where the vendor says that there is no such machine. */
  async connect(id: string, claim?: SandboxClaim): Promise<Sandbox | undefined> {
    const record = await this.#find(id);
    const { machine, facts, token } = record ?? {};
    if (!record || token === undefined) return undefined;
    const found = machine ?? (await this.#vendor.find(id).catch((error: unknown) => this.#fail(error)));
    if (found === undefined) return undefined;
    const { line, provider } = this.#machine({ ...record, machine: found, token });
    if ((await line.look()) === "gone") {
      await this.#forget(id);
      return undefined;
    }
    if (facts !== undefined) return provider.open(facts, claim);
    // Its making was interrupted. A machine without a sandbox has nothing to keep, and costs money.
    void line.touch();
    const sandbox = await provider.connect(id, claim);
    if (sandbox) await this.#records.keep({ ...record, machine: found, facts: sandbox.facts });
    else await this.#remove(id);
    return sandbox;
  }

  async list(): Promise<ListedSandbox[]> {
    return (await this.#records.list()).filter(({ provider }) => provider === this.id);
  }

  #refuse(spec: Parameters<NonNullable<SandboxProvider["check"]>>[0]): void {
    const { directory } = spec;
    RemoteProvider.refuse(this.id, { directory });
    this.#vendor.refuse(spec);
  }

  /** Fails for a sandbox of another place: nothing is known about it here. */
  async #find(id: string): Promise<CloudRecord | undefined> {
    const record = await this.#records.find(id);
    const { account, title } = this.#vendor;
    if (record?.account === undefined || record.account === account) return record;
    const detail = `The sandbox ${id} is at ${record.account}, and ${title} is at ${account} by the settings of this server. Set them back to reach it.`;
    throw new SluiceError("sandbox_unreachable", detail);
  }

  /** The machine of an earlier creation. */
  async #existing(known: CloudRecord | undefined): Promise<string | undefined> {
    const { machine, id, token } = known ?? {};
    if (machine === undefined || id === undefined || token === undefined) return undefined;
    const state = await this.#machine({ id, machine, token }).line.look();
    if (state !== "gone") return machine;
    this.#drop(id);
    return undefined;
  }

  async #made(spec: SandboxSpec): Promise<string> {
    const vendor = this.#vendor;
    try {
      return (await vendor.find(spec.id)) ?? (await vendor.create(spec));
    } catch (error) {
      // An SDK that repeats a creation by itself, after a lost answer, hears that the name is taken.
      const isRefused = error instanceof SluiceError && error.code === "invalid_request";
      const made = isRefused ? await vendor.find(spec.id).catch(() => undefined) : undefined;
      return made ?? this.#fail(error);
    }
  }

  #machine({ id, machine: name, token, isPaused = false }: MachineRecord): OpenMachine {
    const known = this.#open.get(id);
    if (known?.id === name) return known;
    this.#drop(id);
    const vendor = this.#vendor;
    const machine = vendor.machine(name);
    const line = new MachineLine({ vendor, machine, sandbox: id, token, isPaused });
    const record = { id, provider: this.id };
    const provider = new RemoteProvider({
      id: this.id,
      isolated: true,
      dial: line.dial,
      records: this.#records,
      remove: () => this.#remove(id),
      shortcomings: vendor.shortcomings,
      machine: {
        isGone: () => line.isGone,
        state: () => line.state(),
        touch: () => line.touch(),
        // Both orders of the two steps are safe: a machine sleeps until a resume, whichever was recorded.
        ...(machine.pause && {
          pause: async () => {
            await line.pause();
            provider.close();
            await this.#records.keep({ ...record, isPaused: true });
          },
          resume: async () => {
            if (!line.isPaused) return;
            await line.resume();
            await this.#records.keep({ ...record, isPaused: false });
          },
        }),
      },
    });
    const opened = { id: name, machine, line, provider };
    this.#open.set(id, opened);
    return opened;
  }

  async #remove(id: string): Promise<void> {
    await this.#open
      .get(id)
      ?.machine.remove()
      .catch((error: unknown) => this.#fail(error));
    await this.#forget(id);
  }

  async #forget(id: string): Promise<void> {
    this.#drop(id);
    await this.#records.forget(id);
  }

  #drop(id: string): void {
    this.#open.get(id)?.provider.close();
    this.#open.delete(id);
  }

  #fail(error: unknown): never {
    throw error instanceof SluiceError ? error : this.#vendor.toError(error);
  }
}

/** The limits that the vendor does not keep, for the runner. */
function toOwnLimits(limits: SandboxLimits | undefined, vendor: Vendor): Pick<SandboxSpec, "limits"> {
  const names = vendor.limits ?? [];
  const rest = Object.entries(limits ?? {}).filter(([name]) => !names.some((kept) => kept === name));
  return rest.length === 0 ? {} : { limits: Object.fromEntries(rest) };
}

interface MachineRecord {
  readonly id: string;
  readonly machine: string;
  readonly token: string;
  readonly isPaused?: boolean;
}
