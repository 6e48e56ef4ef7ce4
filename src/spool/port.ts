import type { Cleaning } from "./stderr.ts";
import type { Duplex } from "node:stream";
import type { ProcessExit, SpoolLine, StderrOutput } from "../contract/index.ts";

/**
 * The duplex transcript of one harness process, in a folder of its own:
 * `out` and `err` grow by the process's own hand, `in` is what it reads, `sent` is the journal of what was
 * written to `in` and when, `pid` and `exit` come from the wrapper.
 */
export interface Spool {
  readonly folder: string;
  /** Goes before the command line of a process whose streams may be opened again by their names (see `spool/run.ts`). */
  readonly wrapper: readonly string[];
  /** Starts a process whose stdin and stdout nobody else can open: `start` has to give both to the wrapper. */
  begin(start: (wrapped: WrappedStart) => Promise<void>): Promise<void>;
  /** Everything behind the `out` offset `from`, in batches of whole lines, until the process has ended and all is read. */
  follow(options: { from: number; signal: AbortSignal }): AsyncIterable<SpoolBatch>;
  /** The lines of `out` in [from, to), for folding a decoder's state again. */
  replay(from: number, to: number): AsyncIterable<SpoolBatch>;
  /** The bytes of both outputs as they come, until the process has ended and all is read: for what speaks no lines. */
  outputs(options: {
    from: { stdout: number; stderr: number };
    signal: AbortSignal;
  }): AsyncIterable<OutputBatch>;
  /** Hands a text to the process exactly once per id, also when we die in between. False if that id was sent before. */
  send(entry: SentEntry): Promise<boolean>;
  /** All that was sent, in order. */
  sent(): Promise<readonly SentEntry[]>;
  /** Finishes a `send` that an earlier life of ours left half done. */
  repair(): Promise<void>;
  /** Ends the process's input, as Ctrl-D would. */
  closeInput(): Promise<void>;
  pid(): Promise<number | undefined>;
  /** undefined while it runs. */
  exit(): Promise<ProcessExit | undefined>;
  /** Somebody ended all of its processes from outside: records that, where the wrapper could not, so that followers see the end. */
  killed(): Promise<void>;
  /** Resolves when what the process has written by now can be read, on both of its streams. */
  copied(): Promise<void>;
  /** All of stderr, in the shape of the universal transcript schema. */
  stderr(cleaning?: Cleaning): Promise<StderrOutput>;
  /** The bytes that `out` and `err` take on the disk, for whoever has to stop a process that writes too much. */
  size(): Promise<number>;
  /** How long `out` has become. */
  length(): Promise<number>;
  /** Gives the disk space of `out` before `offset` back. */
  forget(offset: number): Promise<void>;
  remove(): Promise<void>;
}

export interface WrappedStart {
  readonly wrapper: readonly string[];
  readonly stdio: { readonly stdin: Duplex; readonly stdout: Duplex };
}

export interface SpoolBatch {
  readonly lines: readonly SpoolLine[];
  /** The `out` offset behind the last line. */
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
  /** The `out` offset behind the last line that had been decoded when it was sent. */
  readonly at: number;
  /** Whole lines, each with its newline. */
  readonly text: string;
}
