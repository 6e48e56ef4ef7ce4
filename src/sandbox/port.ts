import type { Duplex, Readable } from "node:stream";
import type { Launch, SandboxLimits } from "../contract/index.ts";

/** A way to run agents. A missing method is a missing capability. */
export interface SandboxProvider {
  readonly id: string;
  /** `false` if agents can reach everything on this machine; such a provider has to be named explicitly. */
  readonly isolated?: boolean;
  /** Tries whether it works here. */
  detect(): Promise<Detected>;
  /** Refuses the same specs as `create`, so that a bad one fails with the session's creation and not in its first turn. */
  check?(
    spec: Pick<SandboxSpec, "network" | "image"> & { readonly directory?: string | undefined },
  ): Promise<void>;
  create(spec: SandboxSpec): Promise<Sandbox>;
  /**
   * Finds the sandbox of an earlier server, with its running processes. Fails with `DamagedSandboxError` where its record
   * is damaged; then `create` under the same id takes the sandbox over.
   */
  connect(id: string): Promise<Sandbox | undefined>;
  /** Every sandbox of this provider, with its session. */
  list?(): Promise<ListedSandbox[]>;
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
  /** The real paths of these folders on this host, for watching, comparing and checkpoints. */
  readonly folders?: Omit<SandboxPaths, "outputs">;
  /** The owner of its files, if that is not the server's user. */
  readonly owner?: Owner;
  /** Requested limits and rules that cannot be enforced here, each as a sentence. */
  readonly shortcomings?: readonly string[];
  /** Whether secrets can be lent to it, which takes an egress proxy. */
  readonly lends?: boolean;
  /** Starts a process that outlives the server. */
  spawn(process: SpawnedProcess): Promise<void>;
  /** Signals a spawned process, by the pid that its wrapper wrote. */
  signal(pid: number, signal: NodeJS.Signals): Promise<void>;
  /** The limit that ended processes ("out of memory: limit 200 MB"). */
  verdict?(): Promise<string | undefined>;
  /** Ends every process of the sandbox, whatever it did to escape, and returns when none is left. */
  killAll(): Promise<void>;
  exec(command: string, options?: ExecOptions): Promise<ExecResult>;
  readonly files: SandboxFiles;
  /** The URL of a port inside, on this host. */
  host?(port: number): Promise<URL>;
  pause?(): Promise<void>;
  resume?(): Promise<void>;
  /** Closes the server's own resources, such as forwarded ports. The sandbox's processes go on. */
  release?(): Promise<void>;
  /** Kills all processes, then removes everything that the provider made. */
  destroy(): Promise<void>;
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
