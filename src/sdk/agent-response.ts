import { SluiceError } from "../contract/index.ts";

/**
 * What `run()` and `executeCommand()` resolve with.
 *
 * @example
 * const response: AgentResponse = await sluice.run({ prompt: "Fix the failing test" });
 * if (response.exitCode !== 0) console.error(response.stderr);
 */
export interface AgentResponse {
  /** The session that it ran in; every other dialect knows it by the same id. */
  sandboxId: string;
  /** 0 where it went well, 130 where it was interrupted, -1 where it took too long. */
  exitCode: number;
  /** What the agent's CLI or the command printed, as it is. */
  stdout: string;
  stderr: string;
  /** Present when `withStorage()` is configured and the run succeeded. */
  checkpoint?: CheckpointInfo;
}

/**
 * A kept state of the files, and of the agent's memory with them.
 *
 * @example
 * const newest: CheckpointInfo | undefined = (await sluice.listCheckpoints({ limit: 1 }))[0];
 * await sluice.run({ prompt: "Try again", from: newest?.id ?? "latest" });
 */
export interface CheckpointInfo {
  id: string;
  /** Equal trees have equal hashes. */
  hash: string;
  /** ISO 8601. */
  timestamp: string;
  parentId?: string;
  comment?: string;
  sizeBytes?: number;
  agentType?: string;
  model?: string;
}

/**
 * What `run()` takes.
 *
 * @example
 * const options: RunOptions = { prompt: "Write the report", timeoutMs: 15 * 60 * 1000, background: true };
 * await sluice.run(options);
 */
export interface RunOptions {
  prompt: string;
  /** How long it may work; an hour unless said otherwise. */
  timeoutMs?: number;
  /** Resolves once it runs; its end is a `lifecycle` event. */
  background?: boolean;
  /** A checkpoint's id, or `"latest"`: restored into a fresh sandbox first. Needs `withStorage()`. */
  from?: string;
  /** A label for the checkpoint that is made when it succeeds. Needs `withStorage()`. */
  checkpointComment?: string;
}

/**
 * What `executeCommand()` takes beside the command.
 *
 * @example
 * const options: ExecuteOptions = { timeoutMs: 10 * 60 * 1000 };
 * await sluice.executeCommand("pytest", options);
 */
export interface ExecuteOptions {
  /** How long it may run; an hour unless said otherwise. */
  timeoutMs?: number;
  /** Resolves once it runs; its end is a `lifecycle` event. */
  background?: boolean;
}

/** An hour, as the page has it. */
const DEFAULT_TIMEOUT_MS = 3_600_000;

/** How long something may take, in whole milliseconds. */
export function toTimeout(timeoutMs: number = DEFAULT_TIMEOUT_MS): number {
  if (timeoutMs >= 1 && Number.isSafeInteger(Math.round(timeoutMs))) return Math.round(timeoutMs);
  throw new SluiceError(
    "invalid_request",
    `timeoutMs is ${timeoutMs}; give a number of milliseconds from 1.`,
  );
}

/** The text itself; programs without types may give anything. */
export function toText(what: string, given: string, { mayBeEmpty = false } = {}): string {
  if (typeof given === "string" && (mayBeEmpty || given !== "")) return given;
  throw new SluiceError("invalid_request", `${what} is ${JSON.stringify(given)}; give a text.`);
}
