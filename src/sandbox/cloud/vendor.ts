import { createHash } from "node:crypto";
import type { Duplex } from "node:stream";
import { type SandboxLimits, SluiceError } from "../../contract/index.ts";
import type { Detected, SandboxSpec } from "../port.ts";

/** The port of the runner on a vendor's machine. */
export const RUNNER_PORT = 47_118;

/** A vendor of machines, behind its own SDK. */
export interface Vendor {
  /** The name in sessions: `e2b`. */
  readonly id: string;
  /** The vendor's name for people. */
  readonly title: string;
  /** Where the machines are. A sandbox of another place is never taken for gone. */
  readonly account: string;
  /** How often a machine in use has to be told so. */
  readonly renewMs: number;
  /** What holds for each machine, each as a sentence. */
  readonly shortcomings: readonly string[];
  /** Limits that a machine is made with. The others are set inside. */
  readonly limits?: readonly (keyof SandboxLimits)[];
  detect(): Promise<Detected>;
  /** Refuses what no machine can have, before anything is made. */
  refuse(spec: Pick<SandboxSpec, "network" | "image">): void;
  /** Tries the key, and looks for the image. */
  check(spec: Pick<SandboxSpec, "image">): Promise<void>;
  /** The machine that an interrupted creation has left; undefined where there is none. */
  find(sandbox: string): Promise<string | undefined>;
  create(spec: SandboxSpec): Promise<string>;
  machine(id: string): Machine;
  /** A failure of the SDK as our own. Whatever is not certain is `sandbox_unreachable`. */
  toError(error: unknown): SluiceError;
}

/** One machine. Every method fails with the errors of the SDK. */
export type Machine = EdgeMachine | OwnMachine;

interface MachineLife {
  /** `gone` only where the vendor itself says so. */
  state(): Promise<"running" | "asleep" | "gone">;
  /** Tells the vendor that a running machine is needed. */
  renew(): Promise<void>;
  /** Starts a machine that sleeps, with its files, and with its processes where the vendor kept those. */
  wake?(): Promise<void>;
  /** Puts it to sleep with all its processes. */
  pause?(): Promise<void>;
  /** Succeeds where the machine is gone already. */
  remove(): Promise<void>;
}

/** A machine whose ports the vendor brings to the internet. */
export interface EdgeMachine extends MachineLife {
  /** Runs a command in a login shell. Its output is short. */
  run(command: string): Promise<{ readonly exitCode: number; readonly output: string }>;
  write(path: string, content: Uint8Array): Promise<void>;
  /** Where the runner's port is, from here. */
  address(port: number): Promise<MachineAddress>;
}

/** A machine that has a way of its own to its runner. */
export interface OwnMachine extends MachineLife {
  /** Brings the runner there, and starts it, where it does not run. */
  prepare(): Promise<void>;
  /** Opens a stream to the runner. */
  dial(): Promise<Duplex>;
}

export interface MachineAddress {
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The name of a sandbox's machine, where the vendor has names: a repeated creation finds it. */
export function toMachineName(sandbox: string): string {
  return `sluice-${createHash("sha256").update(sandbox).digest("hex").slice(0, 24)}`;
}

export async function detectBy(check: () => Promise<void>): Promise<Detected> {
  try {
    await check();
    return { available: true };
  } catch (error) {
    const { message, facts } = error as SluiceError;
    const { reason, remedy } = (facts ?? {}) as { reason?: string; remedy?: string };
    return { available: false, reason: reason ?? message, ...(remedy === undefined ? {} : { remedy }) };
  }
}

/** The error of an SDK: nobody knows what is there. */
export function toUnreachable(title: string, error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const why = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const detail = `${title} cannot be reached now: ${why}. What runs there goes on.`;
  return new SluiceError("sandbox_unreachable", detail, {}, { cause: error });
}

/** Loads the package of a vendor, which is optional. */
export async function loadSdk<T>(id: string, name: string, load: () => Promise<T>): Promise<T> {
  return load().catch((cause: unknown) => {
    const remedy = `npm install ${name}`;
    const detail = `The sandbox ${id} needs the package ${name}. Run: ${remedy}`;
    throw new SluiceError("unsupported_sandbox", detail, { remedy }, { cause });
  });
}
