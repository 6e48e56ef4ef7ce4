/**
 * The provider interface of `@tanstack/ai-sandbox` 0.2 and later. Copied, because that package needs one exact
 * `@tanstack/ai`; a test compiles ours against its types.
 */
export interface TanStackCapabilities {
  readonly fs: boolean;
  readonly exec: boolean;
  readonly env: boolean;
  readonly ports: boolean;
  readonly backgroundProcesses: boolean;
  readonly writableStdin: boolean;
  readonly snapshots: boolean;
  readonly networkPolicy: boolean;
  readonly durableFilesystem: boolean;
  readonly fork: boolean;
  /** Required since 0.5. */
  readonly killableProcesses: boolean;
}

export interface TanStackProcessOptions {
  cwd?: string;
  env?: Record<string, string>;
  signal?: AbortSignal;
}

export interface TanStackExecResult {
  stdout: string;
  stderr: string;
  exitCode: number;
}

export interface TanStackSpawn {
  readonly pid: number;
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly stdin: { write: (data: string) => Promise<void>; end: () => Promise<void> };
  wait: () => Promise<number>;
  kill: (signal?: NodeJS.Signals | number) => Promise<void>;
}

export interface TanStackProcess {
  exec: (command: string, options?: TanStackProcessOptions) => Promise<TanStackExecResult>;
  spawn: (command: string, options?: TanStackProcessOptions) => Promise<TanStackSpawn>;
}

export interface TanStackFiles {
  read: (path: string) => Promise<string>;
  readBytes: (path: string) => Promise<Uint8Array>;
  write: (path: string, data: string | Uint8Array) => Promise<void>;
  list: (path: string) => Promise<{ name: string; path: string; type: "file" | "dir" }[]>;
  mkdir: (path: string) => Promise<void>;
  remove: (path: string) => Promise<void>;
  rename: (from: string, to: string) => Promise<void>;
  exists: (path: string) => Promise<boolean>;
  watch?: (
    path: string,
    onEvent: (event: { type: string; path: string }) => void,
  ) => Promise<{ stop: () => Promise<void> }>;
}

export interface TanStackClone {
  url: string;
  dir?: string;
  ref?: string;
  auth?: { username?: string; token: string };
  depth?: number | "full";
}

export interface TanStackGit {
  clone: (input: TanStackClone) => Promise<void>;
  status: (dir?: string) => Promise<string>;
  add: (paths: string[], dir?: string) => Promise<void>;
  commit: (message: string, dir?: string) => Promise<void>;
  push: (dir?: string) => Promise<void>;
  pull: (dir?: string) => Promise<void>;
  branch: (dir?: string) => Promise<string>;
}

export interface TanStackSnapshot {
  id: string;
  label?: string;
}

export interface TanStackHandle {
  readonly id: string;
  readonly provider: string;
  readonly workspaceRoot?: string;
  readonly capabilities: TanStackCapabilities;
  readonly fs: TanStackFiles;
  readonly git: TanStackGit;
  readonly process: TanStackProcess;
  readonly ports: { connect: (port: number) => Promise<{ url: string }> };
  readonly env: { set: (vars: Record<string, string>) => Promise<void> };
  snapshot: (label?: string) => Promise<TanStackSnapshot>;
  fork: () => Promise<TanStackHandle>;
  destroy: () => Promise<void>;
}

/** The fields of TanStack's input that a provider needs. */
export interface TanStackMakeInput {
  workspace?: { source?: { type: string; path?: string } };
  policy?: { capabilities?: { network?: string } };
  env?: Record<string, string>;
  signal?: AbortSignal;
}

export interface TanStackCreateInput extends TanStackMakeInput {
  id?: string;
}

export interface TanStackRestoreInput extends TanStackMakeInput {
  snapshotId: string;
}

export interface TanStackProvider {
  readonly name: string;
  capabilities: () => TanStackCapabilities;
  create: (input: TanStackCreateInput) => Promise<TanStackHandle>;
  /** Resolves to null if the sandbox no longer exists. */
  resume: (input: { id: string; signal?: AbortSignal }) => Promise<TanStackHandle | null>;
  restoreSnapshot: (input: TanStackRestoreInput) => Promise<TanStackHandle>;
  destroy: (input: { id: string; signal?: AbortSignal }) => Promise<void>;
}

/** The name is in a constant, so that bundlers do not resolve the package. */
const PACKAGE = "@tanstack/ai-sandbox";

/** Stands in for TanStack's error of that name if its package is not installed. */
export class UnsupportedCapabilityError extends Error {
  override readonly name = "UnsupportedCapabilityError";
  readonly provider: string;
  readonly capability: string;

  constructor(provider: string, capability: string, hint?: string) {
    super(
      `Sandbox provider "${provider}" does not support the "${capability}" capability.${hint ? ` ${hint}` : ""}`,
    );
    this.provider = provider;
    this.capability = capability;
  }
}

type ErrorClass = new (provider: string, capability: string, hint?: string) => Error;

/** An error of TanStack's own class if its package is installed, so that applications can catch it. */
export async function toUnsupported(provider: string, capability: string, hint: string): Promise<Error> {
  const found = (await import(/* @vite-ignore */ PACKAGE).catch(() => ({}))) as {
    UnsupportedCapabilityError?: ErrorClass;
  };
  const { UnsupportedCapabilityError: Theirs = UnsupportedCapabilityError } = found;
  return new Theirs(provider, capability, hint);
}
