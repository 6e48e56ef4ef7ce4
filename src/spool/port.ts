import type { Cleaning, StderrLines } from "./stderr.ts";
import type { Duplex } from "node:stream";
import type { ProcessExit, SpoolLine, StderrOutput } from "../contract/index.ts";

/** The streams of one process, wherever it runs. The process writes `out` and `err` and reads its input. */
export interface Spool {
  /**
   * The lines of `out` from the offset `from` on, in batches of whole lines, until the process has ended. Fails where
   * `out` was shortened (`isShortened`), as `replay` and `outputs` do.
   */
  follow(options: { from: number; signal: AbortSignal }): AsyncIterable<SpoolBatch>;
  /** The lines of `out` in [from, to), to restore a decoder's state. */
  replay(from: number, to: number): AsyncIterable<SpoolBatch>;
  /** The bytes of both outputs until the process has ended: for commands, which print no lines of a protocol. */
  outputs(options: {
    from: { stdout: number; stderr: number };
    signal: AbortSignal;
  }): AsyncIterable<OutputBatch>;
  /** Sends a text to the process exactly once per id, also through a crash. False where the id was sent before. */
  send(entry: SentEntry): Promise<boolean>;
  /** All sent entries, in order. */
  sent(): Promise<readonly SentEntry[]>;
  /** Completes a `send` that a crash interrupted. */
  repair(): Promise<void>;
  /** Closes the process's input, as Ctrl-D does. */
  closeInput(): Promise<void>;
  pid(): Promise<number | undefined>;
  /** Undefined while the process runs. */
  exit(): Promise<ProcessExit | undefined>;
  /** Records a kill from outside, where the wrapper could not, so that followers see the end. */
  killed(): Promise<void>;
  /** Resolves when all output up to now can be read, on both streams. */
  copied(): Promise<void>;
  isAlive(): Promise<boolean>;
  /** Up to `most` bytes of an output from the offset `from` on. Empty where there is nothing, or no such spool. */
  read(stream: "out" | "err", range: { from: number; most: number }): Promise<Buffer>;
  /** The length of stderr. */
  errorLength(): Promise<number>;
  /** All of stderr, in the form of the transcript schema. */
  stderr(cleaning?: Cleaning): Promise<StderrOutput>;
  /** The disk space of `out` and `err`, for the limit of output. */
  size(): Promise<number>;
  /** The length of `out`. */
  length(): Promise<number>;
  /** Frees the disk space of `out` before `offset`. */
  forget(offset: number): Promise<void>;
  remove(): Promise<void>;
}

/**
 * The spool of a process on this machine, in a folder of its own: `out` and `err`, `in` and its journal `sent`. The
 * wrapper writes `pid` and `exit`.
 */
export interface HostSpool extends Spool {
  readonly folder: string;
  /** Precedes the command line of a process that may open its streams again by name (see `spool/run.ts`). */
  readonly wrapper: readonly string[];
  /** Starts a process with a private stdin and stdout: `start` has to give both to the wrapper. */
  begin(start: (wrapped: WrappedStart) => Promise<void>): Promise<void>;
  /** Gives a process with named streams its whole input before it starts: it reads these bytes, then the end. */
  fill(input: Uint8Array): Promise<void>;
  /**
   * The kept lines of stderr, each with `reach` bytes behind its cut. The caller redacts them by `toStderr`, on the
   * machine that knows the secrets.
   */
  stderrLines(reach: number): Promise<StderrLines>;
}

export interface WrappedStart {
  readonly wrapper: readonly string[];
  readonly stdio: { readonly stdin: Duplex; readonly stdout: Duplex };
}

export interface SpoolBatch {
  readonly lines: readonly SpoolLine[];
  /** The `out` offset after the last line. */
  readonly offset: number;
  /** Set on the last batch. */
  readonly exit?: ProcessExit;
}

export interface OutputBatch {
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  /** Set on the last batch. */
  readonly exit?: ProcessExit;
}

export interface SentEntry {
  readonly id: string;
  /** The `out` offset after the last decoded line at the time of sending. */
  readonly at: number;
  /** Whole lines, each with its newline. */
  readonly text: string;
}
