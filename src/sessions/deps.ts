import type { SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import type { EventLog } from "../log/port.ts";
import type { Checkpoints } from "../sandbox/checkpoint/port.ts";
import type { FileHooks } from "../sandbox/index.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { ToolBridge } from "../tools/index.ts";
import type { Drafts } from "./drafts.ts";
import type { Loan } from "./lending.ts";
import type { Owner } from "./owner.ts";
import type { Recorder } from "./recorder.ts";
import type { RestingAgents } from "./restingAgents.ts";
import type { Session } from "./session.ts";
import type { StartQueue } from "./startQueue.ts";

export interface Limits {
  /** A turn that works longer is interrupted; the time that it waits for somebody does not count. */
  readonly turnTimeoutMs: number;
  /** How long a model may say nothing while no tool runs and nobody is asked; then the turn fails. */
  readonly silenceMs: number;
  /** How long an interrupt may take before a signal, and the signal before a kill. */
  readonly interruptMs: number;
  /** How long an interrupt that stops the agent too may take before a kill. */
  readonly stopMs: number;
  /** How long a process may be without a turn before it is ended. */
  readonly idleMs: number;
  /** How long an idle process gets to end by itself when its input is closed. */
  readonly gentleMs: number;
  /** The most that one process may print in its life. */
  readonly maxOutputBytes: number;
  /** How much of a killed process's output is still read before its end is told. */
  readonly maxUnreadBytes: number;
  /** How long the sandbox of a session that has ended is kept for its files. */
  readonly sandboxTtlMs: number;
  /** How often sessions are looked for whose owner has died. */
  readonly sweepMs: number;
  /** How often it is looked for what is older or larger than it may be. */
  readonly retentionMs: number;
}

export const DEFAULT_LIMITS: Limits = {
  turnTimeoutMs: 3_600_000,
  silenceMs: 600_000,
  interruptMs: 5_000,
  stopMs: 2_000,
  idleMs: 300_000,
  gentleMs: 2_000,
  maxOutputBytes: 8 * 1024 ** 3,
  maxUnreadBytes: 32 * 1024 ** 2,
  sandboxTtlMs: 24 * 3_600_000,
  sweepMs: 3_000,
  retentionMs: 5_000,
};

export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly [fact: string]: unknown;
}

export type McpVerdict = "refused" | "unreachable";

export type Logger = (line: LogLine) => void;

/** What a session needs of the engine around it. */
export interface SessionDeps {
  readonly log: EventLog;
  readonly owner: string;
  /** The same with its lock, and its judgement of other owners. */
  readonly ourselves: Owner;
  readonly spoolRoot: string;
  /** The provider of sessions that name none; it fails where nothing isolates. */
  defaultSandbox(): Promise<string>;
  readonly limits: Limits;
  readonly logger: Logger;
  /** Values that must never reach an event, beside those of the session itself. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Of a shelf, or of those sessions that name none. */
  checkpoints(shelf?: string): Checkpoints;
  readonly fileHooks: FileHooks | undefined;
  readonly tools: ToolBridge;
  readonly recorder?: Recorder | undefined;
  /** The spec as a process of the session is started by it. */
  equip(session: string, spec: SessionSpec): Promise<SessionSpec>;
  /** What became of the session's way to an MCP server, where somebody stands between them who knows. */
  mcpVerdict(session: string, server: string): McpVerdict | undefined;
  /** Names that may lie in a private network, for every session. */
  readonly privateHosts: readonly string[];
  /** What is lent to the session's sandbox. */
  lend(session: string): Promise<Loan | undefined>;
  harness(spec: SessionSpec): Harness;
  provider(id: string): SandboxProvider;
  draining(): boolean;
  /** What every start waits in. */
  readonly starts: StartQueue;
  /** Bounds the agents that have nothing to do. */
  readonly resting: RestingAgents;
  /** Told before a process of an agent is started. */
  onStart(): void;
  count(session: string, drafts: Drafts): void;
  onGivenUp(session: Session, error: unknown): void;
}
