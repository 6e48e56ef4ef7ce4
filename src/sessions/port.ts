import type {
  ContentPart,
  EventData,
  PermissionReply,
  QuestionReply,
  RunCommand,
  SessionFilter,
  SessionInfo,
  SessionSpec,
  ShownSpec,
  ToolReply,
  TurnOptions,
} from "../contract/index.ts";
import type { EventLog, SessionRow } from "../log/port.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../sandbox/port.ts";
import type { SessionChange } from "./fold/change.ts";
import type { QueuedInput } from "./fold/session-fold.ts";
import type { KeyOptions } from "./inbox/idempotency.ts";
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
  /** The settings as they are now, without secrets. */
  spec(id: string): Promise<ShownSpec>;
  /** Newest first. A page under a filter may be short, or empty, and have a `next`: its cost is bounded. */
  list(page: SessionPage): Promise<{ sessions: SessionInfo[]; next?: string }>;
  /**
   * Appends the differences only. Other settings hold from the agent's next turn on. The log keeps the key, which has to
   * be new, with the event: `recall` finds it if there was a difference.
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
    reply: (QuestionReply | { rejected: true }) & { by?: string },
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
  /** A checkpoint on the shelf of the session, of any session. */
  findCheckpoint(id: string, checkpoint: string): Promise<CheckpointInfo | undefined>;
  /** The checkpoints of all sessions with this shelf, newest first. */
  shelved(shelf: string | undefined, options?: CheckpointPage): Promise<CheckpointInfo[]>;
  /** Restores the files of an idle session from a checkpoint. The next message resumes the agent from there. */
  restore(id: string, checkpoint: string, options?: KeyOptions): Promise<CheckpointInfo>;

  /** The files of the session's sandbox, which is created where there is none, unless only an existing one is wanted. */
  files(id: string, options?: { onlyExisting?: boolean | undefined }): Promise<SandboxFiles>;

  stats(): EngineStats;
  /** Refuses new work, gives running turns `graceMs` to end, then closes. The next start picks up running processes. */
  drain(options: { graceMs: number }): Promise<void>;
  /** Closes at once, and ends nothing. */
  close(): Promise<void>;
}

export interface CreateOptions extends KeyOptions {
  /** Whose session it is. */
  readonly tenant?: string | undefined;
}

export interface SessionPage extends SessionFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
  readonly tenant?: string | undefined;
  /** Leaves out the sessions that the caller must not see. */
  readonly isOwn?: ((row: SessionRow) => Promise<boolean>) | undefined;
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
   * While a turn runs: wait for its end (the default), join it where the agent can take it, or be refused as
   * `session_busy`. The last also holds while a command runs.
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
  /** Starts of agents: in the queue, under way, all admitted ones, and all withdrawn ones. */
  readonly starts: {
    readonly waiting: number;
    readonly starting: number;
    readonly admitted: number;
    readonly withdrawn: number;
  };
  /** Idle agents, their bound, and all that were ended for the bound. */
  readonly resting: { readonly agents: number; readonly bound: number; readonly putToSleep: number };
  readonly eventsAppended: number;
  readonly batchesAppended: number;
  readonly appendFailures: number;
}
