import type { AgentFile } from "../protocol.ts";
import type { Scope } from "./scope.ts";

/** A tool call that a script asks for: its name and input, and how it is done. */
export interface Tool {
  readonly name: string;
  readonly input: unknown;
  /** Behind a permission request. */
  readonly asks: boolean;
  /** Switched off: it asks each time anew. */
  readonly disabled?: boolean;
  /** The application runs it: it has no start of its own here. */
  readonly elsewhere?: boolean;
  /** What it will do to a file, where that is known before it is done. */
  file?(): AgentFile | undefined;
  run(execution: Execution): Promise<ToolOutcome>;
}

export interface Execution {
  readonly id: string;
  readonly scope: Scope;
  readonly signal: AbortSignal;
  /** Output as it comes; resolves when the reader has taken it. */
  stream(text: string): Promise<void>;
}

export interface ToolOutcome {
  /** Left out where the streamed output is the whole. */
  readonly output?: string;
  readonly failed?: boolean;
  readonly exitCode?: number;
  readonly file?: AgentFile;
  /** What the agent says about it afterwards. */
  readonly echo?: string;
}
