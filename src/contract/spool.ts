/** One line of a harness process, in either direction, as the spool or a recording gives it. */
export interface SpoolLine {
  readonly dir: "in" | "out" | "err" | "exit" | "http-in" | "http-out" | "sse" | "meta";
  /** The line without its newline, invalid UTF-8 replaced by U+FFFD. */
  readonly text: string;
  /** Set when bytes were lost on the way into `text`. */
  readonly damage?: { readonly reason: "utf8" | "too_long"; readonly sha256: string; readonly bytes: number };
  /** Where the line begins: a byte offset of the `out` file, or a line number of a recording. */
  readonly at: number;
  /** Set on `exit`. */
  readonly exit?: ProcessExit;
}

export interface ProcessExit {
  readonly code?: number;
  readonly signal?: string;
  /** The status was never recorded: the wrapper itself was killed. */
  readonly lost?: boolean;
}

/** How far a process's output is in the log. Commits in the same transaction as the events. */
export interface SpoolMark {
  readonly process: number;
  /** The `out` offset behind the last decoded line. */
  readonly offset: number;
  /** The decoder's state at `offset`, given now and then so that what lies before can be forgotten. */
  readonly checkpoint?: unknown;
}
