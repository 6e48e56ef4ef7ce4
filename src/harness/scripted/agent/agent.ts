import type { ToolSettings } from "../../../contract/index.ts";
import type { AgentLine } from "../protocol.ts";
import type { Answers } from "./answers.ts";
import type { McpServers } from "./mcp-servers.ts";
import type { Memory } from "./memory.ts";
import type { Output } from "./output.ts";

/** What lives as long as the process. */
export interface Agent {
  readonly output: Output;
  readonly memory: Memory;
  readonly answers: Answers;
  readonly mcp: McpServers;
  /** Tools that were allowed for good. */
  readonly allowed: Set<string>;
  /** Who decides on which tool, and who runs it. */
  readonly tools: ToolSettings;
  readonly model?: string;
  readonly ids: Ids;
}

/** Ids that no other process of the session uses: kind, process, ordinal. */
export class Ids {
  readonly #process: number;
  #last = 0;

  constructor(process: number) {
    this.#process = process;
  }

  next(kind: string): string {
    this.#last += 1;
    return `${kind}_${this.#process}_${this.#last}`;
  }
}

export type Emit = (line: AgentLine) => void;
