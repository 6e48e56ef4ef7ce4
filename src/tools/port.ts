import type { ContentPart, ToolSettings } from "../contract/index.ts";

export type CustomTool = NonNullable<ToolSettings["custom"]>[number];

/** One process of one session. `createdAt` distinguishes a session from a deleted one with the same id. */
export interface ToolRun {
  readonly session: string;
  readonly createdAt: number;
  readonly process: number;
}

export interface ToolCall {
  /** Made by the caller. Each request for the same call has the same id. */
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

export interface ToolAnswer {
  readonly content: readonly ContentPart[];
  readonly status: "completed" | "failed" | "cancelled";
}

/** The tools of each run. Its methods fail with `token_invalid` for a run that is over. */
export interface ToolRuns {
  list(run: ToolRun): Promise<readonly CustomTool[]>;
  /**
   * Returns the answer when the call is resolved; undefined when `signal` aborts first. The call itself goes on then.
   */
  call(run: ToolRun, call: ToolCall, options: { signal: AbortSignal }): Promise<ToolAnswer | undefined>;
  cancel(run: ToolRun, callId: string): Promise<void>;
}

/** A request of a session's model gateway for its keys. The caller proves that it knows the token of the run. */
export interface DeskRequest {
  readonly run: ToolRun;
  readonly token: string;
  readonly nonce: string;
  readonly proof: string;
}

/**
 * The desk gives a gateway its keys. Returns them encrypted; undefined for a caller without a valid proof; "unknown"
 * while the engine has not read the session yet.
 */
export type Desk = (request: DeskRequest) => Promise<Buffer | "unknown" | undefined>;

/** A run's access to its tools. */
export interface ToolAccess {
  readonly url: string;
  readonly token: string;
  /** The host that an isolated sandbox has to allow: `127.0.0.1:port`. */
  readonly host: string;
}

export const URL_VARIABLE = "SLUICE_TOOLS_URL";
export const TOKEN_VARIABLE = "SLUICE_TOOLS_TOKEN";
