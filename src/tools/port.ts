import type { ContentPart, ToolSettings } from "../contract/index.ts";

export type CustomTool = NonNullable<ToolSettings["custom"]>[number];

/** One process of one session. A session that was deleted and made again under the same id is another one. */
export interface ToolRun {
  readonly session: string;
  readonly createdAt: number;
  readonly process: number;
}

export interface ToolCall {
  /** Made by the caller; the same call has the same id however often it is asked for. */
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface ToolAnswer {
  readonly content: readonly ContentPart[];
  readonly status: "completed" | "failed" | "cancelled";
}

/** Who knows the runs and their tools. Fails with `token_invalid` for a run that is over. */
export interface ToolRuns {
  list(run: ToolRun): Promise<readonly CustomTool[]>;
  /** Answers when the call is resolved; undefined when `signal` came first, which ends nothing. */
  call(run: ToolRun, call: ToolCall, options: { signal: AbortSignal }): Promise<ToolAnswer | undefined>;
  cancel(run: ToolRun, callId: string): Promise<void>;
}

/** What a run needs to reach its tools. */
export interface ToolAccess {
  readonly url: string;
  readonly token: string;
  /** The way that an isolated sandbox has to open: `127.0.0.1:port`. */
  readonly host: string;
}

export const URL_VARIABLE = "SLUICE_TOOLS_URL";
export const TOKEN_VARIABLE = "SLUICE_TOOLS_TOKEN";
