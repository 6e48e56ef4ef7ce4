import type { AgentFile } from "../protocol.ts";

/** The end of a tool call. */
export interface ToolOutcome {
  /** The whole output; undefined if it was streamed. */
  readonly output?: string;
  readonly failed?: boolean;
  readonly exitCode?: number;
  readonly file?: AgentFile;
  /** A text that the agent says after the call. */
  readonly echo?: string;
}
