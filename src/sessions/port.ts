import type { ModelCounts } from "./model-counters.ts";
import type {
  ContentPart,
  EventData,
  InputList,
  Outline,
  PermissionReply,
  QuestionReply,
  RunCommand,
  SessionAt,
  SessionEntry,
  SessionFilter,
  SessionInfo,
  SessionSpec,
  ShownSpec,
  ToolReply,
  TurnOptions,
} from "../contract/index.ts";
import type { BookedUsage, UsageFilter } from "../log/kept/usage.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import type { CheckpointContents, CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../sandbox/port.ts";
import type { SessionChange } from "./fold/change.ts";
import type { QueuedInput } from "./fold/queue.ts";
import type { KeyOptions } from "./inbox/idempotency.ts";
import type { QueueChange, QueueChangeOptions } from "./inbox/queue-change.ts";
import type { Submission } from "./inbox/submission.ts";

export type { KeyOptions };

/** The engine for routes, commands and the SDK. Every method fails with a `SluiceError` that says what to do. */
export interface Engine {
  /** For readers; only the engine appends. */
  readonly log: EventLog;
  /** The provider of sessions that name none. Fails with `unsupported_sandbox` where none is set and none isolates. */
  defaultSandbox(): Promise<string>;
  agents(): Promise<AgentInfo[]>;
  /** The folder of an agent's skills in its sandbox; undefined for an agent without skills. */
  skillsFolder(agent: string): string | undefined;

  create(id: string | undefined, spec: SessionSpec, options?: CreateOptions): Promise<SessionInfo>;
  info(id: string): Promise<SessionInfo>;
  /** The accepted inputs that wait for their turn, the oldest first. */
  inbox(id: string): Promise<readonly QueuedInput[]>;
  /** The inputs that wait, and the revision of the queue. */
  inputs(id: string): Promise<InputList>;
  /** Fails with `input_not_waiting` for an input that has begun or is withdrawn. */
  changeQueue(id: string, change: QueueChange, options?: QueueChangeOptions): Promise<InputList>;
  /** The turns of a session, the newest page first. Reads the turns of the page, and the events of the running turn. */
  outline(id: string, page: OutlinePage): Promise<Outline>;
  /** The session after this event of its log. Reads the events of one turn at most. */
  at(id: string, sequence: number): Promise<SessionAt>;
  /** A session for the live list, with its row; undefined where it is gone. */
  entry(id: string): Promise<{ readonly row: SessionRow; readonly entry: SessionEntry } | undefined>;
  /** The settings as they are now, without secrets. */
  spec(id: string): Promise<ShownSpec>;
  /** Newest first. A page under a filter may be short, or empty, and have a `next`: its cost is bounded. */
  list(page: SessionPage): Promise<{ sessions: SessionInfo[]; next?: string }>;
  /**
   * Appends only the values that differ. New settings of the agent hold from its next turn on. The idempotency key has
   * to be new. It is stored with the event, so `recall` finds it only if a value differed.
   */
  update(id: string, change: SessionChange, options?: { key?: string }): Promise<SessionInfo>;
  /** Appends an error from outside of the agent's work, such as a failed upload into its workspace. */
  report(id: string, error: EventData<"error">): Promise<void>;
  /** Kills all processes, appends `session.deleted`, and removes the session. */
  remove(id: string): Promise<void>;

  /** Resolves when the input is durable. While a turn runs, the input waits in order. */
  send(id: string, input: SessionInput): Promise<AcceptedInput>;
  /** Accepts messages, interrupts and answers in one transaction, or none. Does not wait for an interrupted turn. */
  submit(id: string, submissions: readonly Submission[], options: SubmitOptions): Promise<Submitted>;
  /** Ends the running turn, or the command where no turn runs. Both ids are absent where nothing ran. */
  interrupt(id: string, options?: InterruptOptions): Promise<{ turnId?: string; commandId?: string }>;
  /** Ends the session, and resolves when its processes are dead. With `destroy`, its sandbox and files go too. */
  terminate(id: string, options?: { destroy?: boolean }): Promise<void>;

  /** Resolves when the shell command runs in the sandbox. Its output and end are events. It outlives the server. */
  exec(id: string, command: RunCommand, options?: KeyOptions): Promise<StartedCommand>;

  resolvePermission(
    id: string,
    permissionId: string,
    reply: PermissionReply & { by?: string },
    options?: KeyOptions,
  ): Promise<void>;
  resolveQuestion(
    id: string,
    questionId: string,
    reply: (QuestionReply | { rejected: true; message?: string | undefined }) & { by?: string },
    options?: KeyOptions,
  ): Promise<void>;
  resolveTool(
    id: string,
    requestId: string,
    reply: ToolReply & { by?: string },
    options?: KeyOptions,
  ): Promise<void>;

  /** Freezes every process of the session. Inputs wait meanwhile. */
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** The address on this host of a port in the sandbox. */
  host(id: string, port: number): Promise<URL>;

  /** Makes a checkpoint of an idle session: its files, and its agent's memory. */
  checkpoint(id: string, options?: KeyOptions & { comment?: string | undefined }): Promise<CheckpointInfo>;
  /** Newest first. */
  checkpoints(id: string, options?: CheckpointPage): Promise<CheckpointInfo[]>;
  /** Finds a checkpoint on the session's shelf. Any session with that shelf may have made it. */
  findCheckpoint(id: string, checkpoint: string): Promise<CheckpointInfo | undefined>;
  /** The files of a checkpoint on the shelf of the session. No sandbox is opened. Fails with `checkpoint_not_found`. */
  checkpointContents(id: string, checkpoint: string): Promise<CheckpointContents>;
  /** The checkpoints of all sessions with this shelf, newest first. */
  shelved(shelf: string | undefined, options?: CheckpointPage): Promise<CheckpointInfo[]>;
  /** Restores the files of an idle session from a checkpoint. The next message resumes the agent from there. */
  restore(id: string, checkpoint: string, options?: KeyOptions): Promise<CheckpointInfo>;

  /**
   * Moves an idle session to a sandbox of another provider, with its files and its agent's memory. A failure leaves it
   * where it was.
   */
  move(id: string, sandbox: string, options?: KeyOptions): Promise<SessionInfo>;

  /** The files of the session's sandbox. A missing sandbox is created, unless `onlyExisting` is set. */
  files(id: string, options?: { onlyExisting?: boolean | undefined }): Promise<SandboxFiles>;

  /** The usage of models, also of deleted sessions. */
  usage(filter: UsageFilter): Promise<BookedUsage[]>;
  stats(): EngineStats;
  /** Refuses new work, gives running turns `graceMs` to end, then closes. The next start picks up running processes. */
  drain(options: { graceMs: number }): Promise<void>;
  /** Closes at once. Agents and commands run on. */
  close(): Promise<void>;
}

export interface CreateOptions extends KeyOptions {
  readonly tenant?: string | undefined;
}

export interface SessionPage extends SessionFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
  readonly tenant?: string | undefined;
  /** Leaves out the sessions that the caller must not see. */
  readonly isOwn?: ((row: SessionRow) => Promise<boolean>) | undefined;
}

export interface OutlinePage {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface CheckpointPage {
  readonly limit?: number | undefined;
  /** The last checkpoint of the page before. */
  readonly before?: string | undefined;
}

export interface SessionInput {
  readonly content: readonly ContentPart[];
  /** The dialect of the client. */
  readonly via: string;
  readonly payload?: unknown;
  /**
   * How the message is delivered while a turn runs: `queue`, the default, waits for the turn's end; `steer` joins the
   * turn if the agent can take it; `alone` is refused as `session_busy`, also while a command runs.
   */
  readonly delivery?: "queue" | "steer" | "alone";
  readonly options?: TurnOptions;
  /** Instructions of the system; they hold from the message's turn on. */
  readonly instructions?: string;
  /** A repetition with the same key and content appends nothing and gets the same answer. */
  readonly key?: string;
  /** The author of the input in its event: the id of a token. */
  readonly by?: string | undefined;
}

export interface InterruptOptions {
  readonly by?: string;
  /** Interrupts only this turn. */
  readonly turnId?: string;
  /** Ends the agent's process too, by force where its turn does not end at once. The next message resumes the agent. */
  readonly stop?: boolean;
}

export interface SubmitOptions {
  /** The dialect of the client. */
  readonly via: string;
  /** A repetition with the same key and content appends nothing and gets the same answer. */
  readonly key?: string;
  /** The author of all submissions in their events: the id of a token. It is no part of their content. */
  readonly by?: string | undefined;
}

export interface Submitted {
  /** The sequence before the first event of the submissions: read on from there. */
  readonly after: number;
  /** One for each submission; undefined for an interrupt where nothing ran. */
  readonly accepted: readonly (Accepted | undefined)[];
  readonly duplicate: boolean;
}

/** The event of a submission. */
export interface Accepted {
  readonly sequence: number;
  /** For a message. */
  readonly inputId?: string;
  readonly turnId?: string;
}

export interface AcceptedInput {
  readonly inputId: string;
  readonly turnId: string;
  /** The sequence before the first event of this input: read on from there. */
  readonly after: number;
  readonly duplicate: boolean;
}

export interface StartedCommand {
  readonly commandId: string;
  /** The sequence before its first event. */
  readonly after: number;
}

export interface AgentInfo {
  readonly id: string;
  readonly title: string;
  readonly installed: boolean;
  readonly version?: string;
  readonly hint?: string;
  /** The choices that are known without asking the CLI. */
  readonly modes?: readonly string[];
  readonly models?: readonly string[];
  readonly variants?: readonly string[];
  /** The coverage matrix, computed from the adapter's own code. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

export interface EngineStats {
  readonly sessionsLive: number;
  readonly turnsRunning: number;
  readonly turnsEnded: number;
  readonly processesRunning: number;
  /** Starts of agents: the waiting and the running ones now, the admitted and the withdrawn ones in total. */
  readonly starts: {
    readonly waiting: number;
    readonly starting: number;
    readonly admitted: number;
    readonly withdrawn: number;
  };
  /** Idle agents now, their bound, and how many were ended because of the bound. */
  readonly resting: { readonly agents: number; readonly bound: number; readonly putToSleep: number };
  readonly eventsAppended: number;
  readonly batchesAppended: number;
  readonly appendFailures: number;
  /** Model requests by model, since the start. */
  readonly models: readonly ModelCounts[];
}
