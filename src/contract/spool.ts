/** One line of a harness process, in either direction, from the spool or a recording. */
export interface SpoolLine {
  readonly dir: "in" | "out" | "err" | "exit" | "http-in" | "http-out" | "sse" | "meta";
  /** The line without its newline, invalid UTF-8 replaced by U+FFFD. */
  readonly text: string;
  /** Set if `text` lost bytes. */
  readonly damage?: { readonly reason: "utf8" | "too_long"; readonly sha256: string; readonly bytes: number };
  /** The position of the line: a byte offset of the `out` file, or a line number of a recording. */
  readonly at: number;
  /** Set on `exit`. */
  readonly exit?: ProcessExit;
}

export interface ProcessExit {
  readonly code?: number;
  readonly signal?: string;
  /** The wrapper was killed before it recorded the status. */
  readonly lost?: boolean;
}

/** How far a process's output has become events. Committed with these events. */
export interface SpoolMark {
  readonly process: number;
  /** The `out` offset after the last decoded line. */
  readonly offset: number;
  /** The decoder state at `offset`, saved now and then so that earlier output can be deleted. */
  readonly checkpoint?: unknown;
}
