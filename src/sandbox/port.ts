import type { Duplex, Readable } from "node:stream";
import type { Launch, SandboxLimits } from "../contract/index.ts";

/** One place to run. A missing method is a missing capability. */
export interface SandboxProvider {
  readonly id: string;
  /** `false` keeps agents from nothing of this machine; such a provider is used only where it is named. */
  readonly isolated?: boolean;
  /** Whether it can run here, found out by trying. */
  detect(): Promise<Detected>;
  /** Refuses what `create` would refuse, when the session is made and not when its first turn fails. */
  check?(
    spec: Pick<SandboxSpec, "network" | "image"> & { readonly directory?: string | undefined },
  ): Promise<void>;
  create(spec: SandboxSpec): Promise<Sandbox>;
  /**
   * The sandbox of an earlier life of this server, with whatever still runs in it. Fails with `DamagedSandboxError` where
   * there is one and nothing is known of it any more: `create` under the same id takes it over.
   */
  connect(id: string): Promise<Sandbox | undefined>;
  /** Every sandbox of this provider's own, with the session that it was made for. */
  list?(): Promise<{ id: string; session?: string }[]>;
}

/** There is a sandbox, and what has to be known of it is damaged. */
export class DamagedSandboxError extends Error {
  override readonly name = "DamagedSandboxError";
}

/** The answer of a provider that was asked whether it works. */
export interface Detected {
  readonly available: boolean;
  /** Why it does not work. */
  readonly reason?: string;
  /** The one command that helps. */
  readonly remedy?: string;
}

export interface SandboxSpec {
  readonly id: string;
  /** The session that it is for, so that one whose session is gone can be told from one that is needed. */
  readonly session?: string;
  /** A host folder to work in; a private one is made where there is none. */
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly network?: NetworkPolicy;
  readonly limits?: SandboxLimits;
  /** For providers that have images. */
  readonly image?: string;
}

/** `allow` names hosts as `host`, `host:port` or `*.domain`; loopback only with its port. */
export type NetworkPolicy =
  | { readonly mode: "none" | "loopback" | "full" }
  | {
      readonly mode: "allow";
      readonly hosts: readonly string[];
      /** Names that may lie in a private network; every other name must lead to public addresses. */
      readonly private?: readonly string[];
    };

export type { SandboxLimits };

export interface Sandbox {
  readonly id: string;
  readonly provider: string;
  readonly isolated: boolean;
  /** As the agent sees them. */
  readonly paths: SandboxPaths;
  /** Where the same folders lie on this host, by paths without symlinks, for those who watch, compare and checkpoint them. */
  readonly folders?: Omit<SandboxPaths, "outputs">;
  /** Whose the files in them have to be, where that is not the server's own user. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** What was asked for and cannot be enforced here, in words. */
  readonly shortcomings?: readonly string[];
  /** Whether secrets can be lent to it: the way out of its network puts them into requests. */
  readonly lends?: boolean;
  /** Starts a process that survives us. */
  spawn(process: SpawnedProcess): Promise<void>;
  /** A signal to a spawned process, by the pid that its wrapper wrote. */
  signal(pid: number, signal: NodeJS.Signals): Promise<void>;
  /** What a limit did to its processes ("out of memory: limit 200 MB"), for whoever wonders why one ended. */
  verdict?(): Promise<string | undefined>;
  /** Ends every process of the sandbox, whatever they did to escape, and answers when none is left. */
  killAll(): Promise<void>;
  exec(command: string, options?: ExecOptions): Promise<ExecResult>;
  readonly files: SandboxFiles;
  /** Where a port that is open inside can be reached from this host. */
  host?(port: number): Promise<URL>;
  pause?(): Promise<void>;
  resume?(): Promise<void>;
  /** Lets go of what this process holds open for it, such as forwarded ports; ends nothing. */
  release?(): Promise<void>;
  /** Kills all, then removes what the provider made for it. */
  destroy(): Promise<void>;
}

export interface SpawnedProcess {
  readonly launch: Launch;
  /** Goes before the command and runs outside of the isolation. */
  readonly wrapper: readonly string[];
  /** What the wrapper gets as its own streams; nothing where it is left out. */
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

/** Paths are in-sandbox paths, absolute or relative to the workspace. None ever leads outside, symlinks included. */
export interface SandboxFiles {
  read(path: string): Promise<Uint8Array>;
  /** For files of any size: read as they are asked for, and closed at their end or when the reader leaves. */
  open(path: string): Promise<OpenedFile>;
  write(path: string, content: FileContent, options?: { mode?: number }): Promise<void>;
  /** Makes a symlink. What it says is not looked at: whoever goes through it is checked then. */
  symlink?(path: string, target: string): Promise<void>;
  list(path: string): Promise<FileEntry[]>;
  stat(path: string): Promise<FileEntry>;
  mkdir(path: string): Promise<void>;
  move(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>;
  remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  /** The host folder of a path, without a symlink in it, where the files lie on this host. */
  locate?(path: string): Promise<string>;
}

export type FileContent = Uint8Array | string | AsyncIterable<Uint8Array>;

export interface OpenedFile {
  /** As many bytes come; a file that has become shorter meanwhile is an error. */
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
}
