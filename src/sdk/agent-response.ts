import { SluiceError } from "../contract/index.ts";
import type { AgentRuntimeState, SandboxLifecycleState } from "../dialects/sdk/events.ts";

/**
 * The result of `run()` and `executeCommand()`.
 *
 * @example
 * const response: AgentResponse = await sluice.run({ prompt: "Fix the failing test" });
 * if (response.exitCode !== 0) console.error(response.stderr);
 */
export interface AgentResponse {
  /** The session's id, by which other clients find it. */
  sandboxId: string;
  /** 0 for success, 130 for an interrupt, -1 for a timeout. */
  exitCode: number;
  /** The raw output of the agent's CLI or of the command. */
  stdout: string;
  stderr: string;
  /** Present when `withStorage()` is configured and the run succeeded. */
  checkpoint?: CheckpointInfo;
}

/**
 * A checkpoint of the files and of the agent's memory.
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
 * The options of `run()`.
 *
 * @example
 * const options: RunOptions = { prompt: "Write the report", timeoutMs: 15 * 60 * 1000, background: true };
 * await sluice.run(options);
 */
export interface RunOptions {
  prompt: string;
  /** The time limit (default: an hour). */
  timeoutMs?: number;
  /** Whether the call resolves at the start of the run. A `lifecycle` event reports the end. */
  background?: boolean;
  /** A checkpoint's id, or `"latest"`, to restore into a new sandbox first. Needs `withStorage()`. */
  from?: string;
  /** A comment for the checkpoint of a successful run. Needs `withStorage()`. */
  checkpointComment?: string;
}

/**
 * The options of `executeCommand()`.
 *
 * @example
 * const options: ExecuteOptions = { timeoutMs: 10 * 60 * 1000 };
 * await sluice.executeCommand("pytest", options);
 */
export interface ExecuteOptions {
  /** The time limit (default: an hour). */
  timeoutMs?: number;
  /** Whether the call resolves at the start of the command. A `lifecycle` event reports the end. */
  background?: boolean;
}

export function refuse(detail: string): SluiceError {
  return new SluiceError("invalid_request", detail);
}

const DEFAULT_TIMEOUT_MS = 3_600_000;

/** A valid time limit in whole milliseconds. */
export function toTimeout(timeoutMs: number = DEFAULT_TIMEOUT_MS): number {
  if (timeoutMs >= 1 && Number.isSafeInteger(Math.round(timeoutMs))) return Math.round(timeoutMs);
  throw refuse(`timeoutMs is ${timeoutMs}; give a number of milliseconds from 1.`);
}

/** Checks a text at run time: a program without types may pass any value. */
export function toText(name: string, value: string, { mayBeEmpty = false } = {}): string {
  if (typeof value === "string" && (mayBeEmpty || value !== "")) return value;
  throw refuse(`${name} is ${JSON.stringify(value)}; give a text.`);
}

/**
 * The state of the sandbox, and of the run or command in it.
 *
 * @example
 * const { sandbox, agent, activeProcessId }: SessionStatus = sluice.status();
 */
export interface SessionStatus {
  sandboxId: string | null;
  sandbox: SandboxLifecycleState;
  agent: AgentRuntimeState;
  /** The id of the active run or command in the log. */
  activeProcessId: string | null;
  /** Whether the agent has run in this sandbox. */
  hasRun: boolean;
  /** ISO 8601. */
  timestamp: string;
}
