import type { Budget, CassetteSpec, PerMinute, SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import type { EventLog } from "../log/port.ts";
import type { Checkpoints } from "../sandbox/checkpoint/port.ts";
import type { FileHooks } from "../sandbox/index.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { ToolBridge } from "../tools/index.ts";
import type { Drafts } from "./fold/drafts.ts";
import type { StartQueue } from "./process/admission.ts";
import type { RestingAgents } from "./process/idle.ts";
import type { Loan } from "./secrets/lending.ts";
import type { KeptSecrets } from "./secrets/kept.ts";
import type { ModelDesk } from "./secrets/model-desk.ts";
import type { Recorder } from "./secrets/recorder.ts";
import type { WorkspaceRates } from "./turn/workspace-rate.ts";
import type { Ownership } from "./upkeep/lease.ts";

export interface Limits {
  /** A turn that works longer is interrupted. Time in which it waits for an answer does not count. */
  readonly turnTimeoutMs: number;
  /** A turn fails when its model is silent for this long, while no tool runs and no request is open. */
  readonly silenceMs: number;
  /** How long an interrupt may take before a signal, and the signal before a kill. */
  readonly interruptMs: number;
  /** How long an interrupt may take before a kill, where the interrupt also stops the agent. */
  readonly stopMs: number;
  /** How long a process may be without a turn before it is ended. */
  readonly idleMs: number;
  /** How long an idle process gets to end by itself when its input is closed. */
  readonly gentleMs: number;
  /** The most that one process may print in its life. */
  readonly maxOutputBytes: number;
  /** The most unread output of a killed process that is still read. */
  readonly maxUnreadBytes: number;
  /** How long the sandbox of an ended session is kept for its files. */
  readonly sandboxTtlMs: number;
  /** How often abandoned sessions are looked for. */
  readonly sweepMs: number;
  /** How often retention runs. */
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

/** The engine as its sessions use it. */
export interface SessionDeps {
  readonly log: EventLog;
  readonly owner: string;
  /** The lease of this engine, and its check of other leases. */
  readonly lease: Ownership;
  readonly spoolRoot: string;
  /** The folder of the named cassettes. */
  readonly cassettes: string;
  /** The cassette of new sessions that name none. */
  readonly defaultCassette?: CassetteSpec | undefined;
  /** The provider of sessions that name none. Fails where no provider isolates. */
  defaultSandbox(): Promise<string>;
  readonly limits: Limits;
  readonly logger: Logger;
  /** Values that are redacted from every event, beside the session's own secrets. */
  readonly secrets: ReadonlyMap<string, string>;
  /** The values of the secrets that came with their sessions. */
  readonly kept: KeptSecrets;
  /** The checkpoints of one shelf; without a name, those of the sessions that have no shelf. */
  checkpoints(shelf?: string): Checkpoints;
  readonly fileHooks: FileHooks | undefined;
  readonly tools: ToolBridge;
  /** The keys of led agents. */
  readonly desk: ModelDesk;
  readonly recorder?: Recorder | undefined;
  /** The spec that the session's process is started with. */
  equip(session: string, spec: SessionSpec): Promise<SessionSpec>;
  /** The reason of an MCP server's failure, if the proxy in front of that server knows it. */
  mcpVerdict(session: string, server: string): McpVerdict | undefined;
  /** Names that may resolve into a private network, for every session. */
  readonly privateHosts: readonly string[];
  /** The secrets that are lent to the session's sandbox. */
  lend(session: string): Promise<Loan | undefined>;
  /** The budget of a tenant, which the operator has set. */
  workspaceBudget(tenant: string): Budget | undefined;
  /** The limits of a tenant's model requests by the minute, which the operator has set. */
  workspacePerMinute(tenant: string): PerMinute | undefined;
  readonly rates: WorkspaceRates;
  harness(spec: SessionSpec): Harness;
  provider(id: string): SandboxProvider;
  draining(): boolean;
  /** The queue of all starts. */
  readonly starts: StartQueue;
  /** Bounds the number of idle agents. */
  readonly resting: RestingAgents;
  /** Called before the start of an agent's process. */
  onStart(): void;
  count(session: string, drafts: Drafts): void;
  onAppendFailed(): void;
}
