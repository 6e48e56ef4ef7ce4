import { ModelDesk } from "./secrets/model-desk.ts";
import { join } from "node:path";
import {
  type Budget,
  type CassetteSpec,
  type PerMinute,
  type SessionSpec,
  SluiceError,
  type EventDraft,
} from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import { findHarness } from "../harness/registry.ts";
import { type EventLog, DAMAGED_AGENT } from "../log/port.ts";
import { parsePrivateNames } from "../sandbox/egress/allow-list.ts";
import type { CheckpointStorage } from "../sandbox/checkpoint/port.ts";
import { type FileHooks, createFolderStorage } from "../sandbox/index.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import { createToolBridge, type ToolRuns } from "../tools/index.ts";
import { DEFAULT_LIMITS, type Limits, type Logger, type SessionDeps } from "./deps.ts";
import { StartQueue, DEFAULT_STARTS_AT_ONCE } from "./process/admission.ts";
import { RestingAgents } from "./process/idle.ts";
import { createCheckpointStores } from "./sandbox/checkpoint.ts";
import { hostKeys } from "./secrets/credentials.ts";
import { keepInFiles, type KeptSecrets } from "./secrets/kept.ts";
import type { Loan } from "./secrets/lending.ts";
import type { Recorder } from "./secrets/recorder.ts";
import { decideDefault, findProvider } from "./spec.ts";
import { type SharedUses, WorkspaceRates } from "./turn/workspace-rate.ts";
import { Lease, type Ownership } from "./upkeep/lease.ts";
import type { RetentionOptions } from "./upkeep/retention.ts";

export interface EngineOptions {
  readonly log: EventLog;
  /** The folder of spools and sandboxes. */
  readonly dataDir: string;
  readonly harnesses?: readonly Harness[];
  readonly providers?: readonly SandboxProvider[];
  readonly defaultSandbox?: string;
  readonly limits?: Partial<Limits>;
  /** Nothing is removed or trimmed by default, except for sessions with a `ttl`. */
  readonly retention?: RetentionOptions;
  /** The most starts of agents at one time, by default one fewer than there are cores. The others wait in the order of arrival. */
  readonly startsAtOnce?: number;
  /**
   * The most idle agents, by default as many as fit into half of the memory at 50 MB each, and at least 16. Beyond
   * that, the longest idle agent is ended.
   */
  readonly restingAgents?: number;
  /** The storage of checkpoints, by default a folder beside the log. */
  readonly checkpointStorage?: CheckpointStorage;
  /** The storage of a shelf; undefined for a part of `checkpointStorage`. */
  readonly shelves?: (shelf: string) => CheckpointStorage | undefined;
  /** Called on every change of a file in any session. An exception is logged and has no other effect. */
  readonly fileHooks?: FileHooks;
  readonly logger?: Logger;
  /** How long idle agents live when this process is killed and no other server starts. 0, the default: no limit. */
  readonly orphanMs?: number;
  /**
   * Whether `createEngine` resolves before the running sessions are recovered. A call to such a session waits only for
   * its own recovery.
   */
  readonly recoversBeside?: boolean;
  /** Decides which sessions this engine may take; by default a lease on the data folder. */
  readonly ownership?: Ownership;
  /** Whether this is a caretaker: it picks up abandoned sessions, and starts nothing. */
  readonly caretakes?: boolean;
  /** Gets every line of every process, in both directions. */
  readonly recorder?: Recorder;
  /**
   * Replaces the session's spec for a start, such as by MCP servers behind a proxy that holds their credentials. Called
   * at every start. The result is not stored, and should be the same each time.
   */
  readonly equip?: (session: string, spec: SessionSpec) => Promise<SessionSpec>;
  /** The reason of an MCP server's failure, which the agent itself cannot know. */
  readonly mcpVerdict?: SessionDeps["mcpVerdict"];
  /** Secrets that are lent to the session's sandbox. Called at every start; the placeholders stay the same. */
  readonly lend?: (session: string) => Promise<Loan | undefined>;
  /** Stores the values of `value:…` secrets, by default in private files of the data folder. */
  readonly kept?: KeptSecrets;
  /** The budget of a tenant over all its sessions. The tenant's clients cannot raise it. */
  readonly workspaceBudget?: (tenant: string) => Budget | undefined;
  /** The limits of a tenant's model requests in any minute, over all its sessions. */
  readonly workspacePerMinute?: (tenant: string) => PerMinute | undefined;
  /** The model requests of the last minute on the other servers of the log. */
  readonly sharedUses?: SharedUses;
  /** Names that may resolve into a private network, for every session, such as a company's model gateway. */
  readonly privateHosts?: readonly string[];
  /** The cassette of new sessions that name none. Agents without a model have none. */
  readonly cassette?: CassetteSpec | undefined;
  /** Called after every commit, with no events for a new session. It must not throw or block. */
  readonly onCommit?: (session: string, events: readonly EventDraft[]) => void;
  /** Values that are redacted from every event, by name, such as the server's own token. */
  readonly secrets?: ReadonlyMap<string, string>;
}

/** The parts that the running engine provides. */
interface Surroundings extends Pick<SessionDeps, "draining" | "onStart" | "count" | "onAppendFailed"> {
  readonly harnesses: readonly Harness[];
  readonly providers: readonly SandboxProvider[];
  readonly runs: ToolRuns;
}

/** The dependencies of all sessions, from the engine's options. */
export function createSessionDeps(options: EngineOptions, around: Surroundings): SessionDeps {
  const { dataDir } = options;
  const { harnesses, providers, runs, ...rest } = around;
  const { logger = () => {}, defaultSandbox: named } = options;
  const desk = new ModelDesk();
  const lease = options.ownership ?? new Lease(dataDir, { passing: options.caretakes ?? false });
  return {
    ...rest,
    log: options.log,
    lease,
    owner: lease.name,
    spoolRoot: join(dataDir, "spools"),
    cassettes: join(dataDir, "cassettes"),
    defaultCassette: options.cassette,
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    logger,
    defaultSandbox: decideDefault(providers, { named, logger }),
    secrets: new Map([...hostKeys(harnesses), ...(options.secrets ?? [])]),
    kept: options.kept ?? keepInFiles(dataDir),
    fileHooks: options.fileHooks,
    recorder: options.recorder,
    equip: options.equip ?? (async (_session, spec) => spec),
    lend: options.lend ?? (async () => undefined),
    workspaceBudget: options.workspaceBudget ?? (() => undefined),
    workspacePerMinute: options.workspacePerMinute ?? (() => undefined),
    rates: new WorkspaceRates({
      shared: options.sharedUses,
      isLimited: (tenant) => options.workspacePerMinute?.(tenant) !== undefined,
    }),
    privateHosts: toPrivateHosts(options.privateHosts),
    mcpVerdict: options.mcpVerdict ?? (() => undefined),
    desk,
    tools: createToolBridge({
      folder: join(dataDir, "tools"),
      runs,
      desk: (request) => desk.answer(request),
    }),
    checkpoints: createCheckpointStores({
      dataDir,
      storage: options.checkpointStorage ?? createFolderStorage(join(dataDir, "checkpoints")),
      find: options.shelves,
    }),
    starts: new StartQueue(options.startsAtOnce ?? DEFAULT_STARTS_AT_ONCE),
    resting: new RestingAgents(options.restingAgents),
    harness: (spec) => {
      if (spec.agent === DAMAGED_AGENT) throw specDamaged();
      return findHarness(spec.agent, harnesses);
    },
    provider: (id) => findProvider(id, providers),
  };
}

function specDamaged(): SluiceError {
  const detail = "the settings of this session are damaged in the store; read its events, or delete it";
  return new SluiceError("internal", detail);
}

/** Fails at the start of the engine for an invalid name. */
function toPrivateHosts(names: readonly string[] = []): readonly string[] {
  parsePrivateNames(names);
  return names;
}
