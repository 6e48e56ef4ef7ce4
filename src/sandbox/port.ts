import type { Duplex, Readable } from "node:stream";
import type { GatewayAccess, Launch, Programs, SandboxLimits } from "../contract/index.ts";
import type { Spool } from "../spool/port.ts";
import type { BundleTarget, CheckpointBundle } from "./checkpoint/bundle-port.ts";
import type { FileChange, FileHookRunner, FileHooks, WatchWarning } from "./watch/changes.ts";

/** A way to run agents. A missing method is a missing capability. */
export interface SandboxProvider {
  readonly id: string;
  /** `false` if agents can reach everything on this machine; such a provider has to be named explicitly. */
  readonly isolated?: boolean;
  /** Whether its sandboxes have programs of their own, so that an agent need not be installed on this machine. */
  readonly hasPrograms?: boolean;
  /** Only for a provider that stands for many, such as one for each SSH host: the one with this name. */
  named?(name: string): SandboxProvider | undefined;
  /** Tries whether it works here. */
  detect(): Promise<Detected>;
  /** Refuses the same specs as `create`, so that a bad one fails with the session's creation and not in its first turn. */
  check?(
    spec: Pick<SandboxSpec, "network" | "image"> & { readonly directory?: string | undefined },
  ): Promise<void>;
  create(spec: SandboxSpec, claim?: SandboxClaim): Promise<Sandbox>;
  /**
   * Finds the sandbox of an earlier server, with its running processes; undefined only where it is certainly gone. Fails
   * with `sandbox_unreachable` where that is not known, and with `DamagedSandboxError` where its record is damaged; then
   * `create` under the same id takes the sandbox over.
   */
  connect(id: string, claim?: SandboxClaim): Promise<Sandbox | undefined>;
  /** Every sandbox of this provider, with its session. */
  list?(): Promise<ListedSandbox[]>;
}

/** A provider whose sandboxes are on this machine. */
export interface HostProvider extends SandboxProvider {
  create(spec: SandboxSpec, claim?: SandboxClaim): Promise<HostSandbox>;
  connect(id: string, claim?: SandboxClaim): Promise<HostSandbox | undefined>;
}

/** The claim of a session on its sandbox. */
export interface SandboxClaim {
  /** The folder for the spools of a sandbox on this machine. */
  readonly spools: string;
  /** A sandbox on another machine refuses calls under an older epoch. */
  readonly epoch: number;
}

export interface ListedSandbox {
  readonly id: string;
  readonly session?: string;
}

/** A sandbox exists, but its record is damaged. */
export class DamagedSandboxError extends Error {
  override readonly name = "DamagedSandboxError";
}

/** The result of a provider's self-test. */
export interface Detected {
  readonly available: boolean;
  /** Why it does not work. */
  readonly reason?: string;
  /** The command that repairs it. */
  readonly remedy?: string;
}

export interface SandboxSpec {
  readonly id: string;
  /** Its session, so that sandboxes of deleted sessions can be found. */
  readonly session?: string;
  /** A host folder to work in; by default a private one is made. */
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly network?: NetworkPolicy;
  readonly limits?: SandboxLimits;
  /** For providers that have images. */
  readonly image?: string;
}

/**
 * `allow` names hosts as `host` or `*.domain`, with or without a port, or `*` for every public host. Loopback needs a
 * port.
 */
export type NetworkPolicy =
  | { readonly mode: "none" | "loopback" | "full" }
  | {
      readonly mode: "allow";
      readonly hosts: readonly string[];
      /** Names that may resolve to private addresses. Every other name has to resolve to public ones. */
      readonly private?: readonly string[];
    };

export type { SandboxLimits };

export interface Sandbox {
  readonly id: string;
  readonly provider: string;
  readonly isolated: boolean;
  /** The sandbox's folders, as the agent sees them. */
  readonly paths: SandboxPaths;
  /** The owner of its files, if that is not the server's user. */
  readonly owner?: Owner;
  /** Requested limits and rules that cannot be enforced here, each as a sentence. */
  readonly shortcomings?: readonly string[];
  /** Whether secrets can be lent to it, which takes an egress proxy. */
  readonly lends?: boolean;
  /** The model gateway for its agents, if this sandbox and its network can have one. */
  readonly gateway?: GatewayAccess | undefined;
  readonly processes: SandboxProcesses;
  readonly tree?: SandboxTree;
  /** Never fails. A sandbox without this method counts as running. */
  state?(): Promise<SandboxState>;
  /** Whether it is known by now that the sandbox is gone. */
  readonly isGone?: boolean;
  /** Tells a sandbox with a lifetime that it is needed now. Never fails. */
  touch?(): Promise<void>;
  /** Looks for programs of these names on the sandbox's own machine. A sandbox without this method uses this machine's. */
  programs?(names: readonly string[]): Promise<Programs>;
  /** The limit that ended processes ("out of memory: limit 200 MB"). */
  verdict?(): Promise<string | undefined>;
  /** Ends every process of the sandbox, whatever it did to escape, and returns when none is left. */
  killAll(): Promise<void>;
  exec(command: string, options?: ExecOptions): Promise<ExecResult>;
  readonly files: SandboxFiles;
  /** The URL of a port inside, on this host. */
  host?(port: number): Promise<URL>;
  /**
   * Lets processes inside reach a port of this host's loopback, and returns its authority there: `127.0.0.1:port`. The
   * same name keeps its port, for other servers, too. A sandbox without this method sees the ports of this host.
   */
  reach?(name: ReachedName, port: number): Promise<string>;
  pause?(): Promise<void>;
  resume?(): Promise<void>;
  /** Closes the server's own resources, such as forwarded ports. The sandbox's processes go on. */
  release?(): Promise<void>;
  /** Kills all processes, then removes everything that the provider made. */
  destroy(): Promise<void>;
}

/** The listeners of a server that processes in a sandbox on another machine use. */
export type ReachedName = "tools" | "relay" | "gateway";

/** `unreachable`: nobody knows. Only `gone` is certain, and only then may another sandbox take its place. */
export type SandboxState = "running" | "asleep" | "gone" | "unreachable";

/** Processes that outlive the server, by names that are unique in their sandbox. */
export interface SandboxProcesses {
  /** Starts a process with a new spool. After a failure nothing of it is left. */
  start(process: NamedProcess): Promise<Spool>;
  /** The spool of a process, running or ended; undefined where there is none. */
  open(name: string): Promise<Spool | undefined>;
  /** Signals the process, where it runs. */
  signal(name: string, signal: NodeJS.Signals): Promise<void>;
}

export interface NamedProcess {
  readonly name: string;
  readonly launch: Launch;
  /** `private`: its stdin and stdout cannot be opened by other processes. `named`: it may open them again itself. */
  readonly streams: "private" | "named";
  /** The whole input of a process with named streams. */
  readonly input?: Uint8Array | undefined;
}

/** The files of the workspace as a whole. A missing method is a missing capability. */
export interface SandboxTree {
  /** Watches the workspace. Resolves when no later change is missed. */
  watch?(options: TreeWatchOptions): Promise<TreeWatch>;
  /** The difference between the workspace and its commit; undefined where it is no repository. */
  diff?(options: { readonly scratch: string }): Promise<{ readonly diff: string } | undefined>;
  /** Calls the application's hooks for changed files. */
  hooks?(hooks: FileHooks, log: (message: string, error: unknown) => void): FileHookRunner;
  /** The folders of this host that a checkpoint reads and restores. */
  readonly roots?: { readonly workspace: string; readonly home: string };
  /** For folders of another machine: checkpoints that are made and restored there. */
  readonly bundles?: TreeBundles;
}

export interface TreeBundles {
  /** Makes a checkpoint of the folders. It leaves content out that the manifest `base` has, if that is known there. */
  make(base: string | undefined): Promise<CheckpointBundle>;
  /** Frees the space of the last bundle on the other machine. */
  drop(): Promise<void>;
  readonly target: BundleTarget;
}

export interface TreeWatchOptions {
  /** The file of this host with the state of the files, for the next server. */
  readonly memoFile: string;
  /** The head of the session's log. */
  readonly head: number;
  /** The changes that the log has since this head: they must not be reported again. */
  readonly reported: (since: number) => Promise<FileChange[]>;
  readonly warn: (warning: WatchWarning | { readonly reason: string; readonly detail: string }) => void;
}

/** The changes of a workspace by any process, also those while no server ran. Paths are relative to the workspace. */
export interface TreeWatch {
  /** The changes since the last call, in order. */
  take(): FileChange[];
  /** Resolves when there are changes to take, or the watch is stopped. */
  moved(options: { signal: AbortSignal }): Promise<void>;
  /** Resolves when every change before the call can be taken. */
  flush(): Promise<void>;
  /** Stores the state of the files that was taken, with this head of the log, in the background. Only the latest counts. */
  remember(head: number, options?: { onlyIfCheap?: boolean }): void;
  stop(): Promise<void>;
}

/** A sandbox on this machine. `HostProcesses` and `HostTree` make it a `Sandbox`. */
export interface HostSandbox extends Sandbox {
  /** The real paths of the sandbox's folders on this host. */
  readonly folders: SandboxPaths;
  /** Starts a process that outlives the server. */
  spawn(process: SpawnedProcess): Promise<void>;
  /** Signals a spawned process, by the pid that its wrapper wrote. */
  signal(pid: number, signal: NodeJS.Signals): Promise<void>;
}

/** The user that a sandbox's files belong to, where it is not the server's own. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export interface SpawnedProcess {
  readonly launch: Launch;
  /** The command's prefix, which runs outside of the isolation. */
  readonly wrapper: readonly string[];
  /** The wrapper's streams; it has none by default. */
  readonly stdio?: { readonly stdin: Duplex; readonly stdout: Duplex };
}

export interface SandboxPaths {
  readonly workspace: string;
  readonly home: string;
  readonly uploads: string;
  readonly outputs: string;
}

export interface ExecOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string | Uint8Array;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly maxOutputBytes?: number;
}

export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

/** Files by in-sandbox path, absolute or relative to the workspace. No path leads outside, not even by a symlink. */
export interface SandboxFiles {
  read(path: string): Promise<Uint8Array>;
  /** Opens a file of any size. It is read on demand, and closed at its end or when its stream is destroyed. */
  open(path: string): Promise<OpenedFile>;
  write(path: string, content: FileContent, options?: { mode?: number }): Promise<void>;
  /** Makes a symlink. Its target is checked at each later access. */
  symlink?(path: string, target: string): Promise<void>;
  list(path: string): Promise<FileEntry[]>;
  stat(path: string): Promise<FileEntry>;
  mkdir(path: string): Promise<void>;
  move(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  /** The real path on this host of a folder inside, if its files lie on this host. */
  locate?(path: string): Promise<string>;
}

export type FileContent = Uint8Array | string | AsyncIterable<Uint8Array>;

export interface OpenedFile {
  /** The exact number of bytes in `content`. A file that becomes shorter meanwhile fails the stream. */
  readonly size: number;
  readonly content: Readable;
}

export interface FileEntry {
  readonly path: string;
  readonly name: string;
  readonly entryType: "file" | "directory" | "symlink" | "other";
  readonly size: number;
  /** Milliseconds since 1970. */
  readonly modified: number;
  /** Another text after every change of the file, also one that keeps its size and time. */
  readonly version?: string;
}
