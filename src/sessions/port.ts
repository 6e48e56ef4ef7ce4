import type {
  ContentPart,
  EventData,
  PermissionReply,
  QuestionReply,
  RunCommand,
  SessionInfo,
  SessionSpec,
  ToolReply,
  TurnOptions,
} from "../contract/index.ts";
import type { EventLog } from "../log/port.ts";
import type { CheckpointInfo } from "../sandbox/checkpoint/port.ts";
import type { SandboxFiles } from "../sandbox/port.ts";
import type { SessionChange } from "./change.ts";
import type { QueuedInput } from "./fold.ts";
import type { Submission } from "./submission.ts";

/** The engine as routes, commands and the SDK see it. Every method fails with a `SluiceError` that says what to do. */
export interface Engine {
  /** Readers read here; only the engine appends. */
  readonly log: EventLog;
  /** The provider of sessions that name none; `unsupported_sandbox` where nothing isolates and none was named. */
  defaultSandbox(): Promise<string>;
  agents(): Promise<AgentInfo[]>;
  /** Where an agent looks for skills, in its sandbox; undefined where it knows none. */
  skillsFolder(agent: string): string | undefined;

  create(id: string | undefined, spec: SessionSpec): Promise<SessionInfo>;
  info(id: string): Promise<SessionInfo>;
  /** What was accepted and waits for its turn, the oldest first. */
  inbox(id: string): Promise<readonly QueuedInput[]>;
  /** Newest first. */
  list(page: { cursor?: string; limit: number }): Promise<{ sessions: SessionInfo[]; next?: string }>;
  /** Tells of what really changes; the agent is started with other settings from its next turn on. */
  update(id: string, change: SessionChange): Promise<SessionInfo>;
  /** Says in the log that something beside the agent's work went wrong, such as what its workspace should have held. */
  report(id: string, error: EventData<"error">): Promise<void>;
  /** Kills what runs, says `session.deleted` to the readers, and removes all of it. */
  remove(id: string): Promise<void>;

  /** Answers once the input is durably accepted; while a turn runs it waits in order. */
  send(id: string, input: SessionInput): Promise<AcceptedInput>;
  /** Messages, interrupts and answers in one transaction: all of it is accepted, or none. Does not wait for an interrupted turn. */
  submit(id: string, submissions: readonly Submission[], options: SubmitOptions): Promise<Submitted>;
  /** Ends the running turn in place, or the command where no turn runs. Neither id is there when nothing ran. */
  interrupt(id: string, options?: InterruptOptions): Promise<{ turnId?: string; commandId?: string }>;
  /** Ends the session; its process tree is dead when it answers. With `destroy` its sandbox and files are gone too. */
  terminate(id: string, options?: { destroy?: boolean }): Promise<void>;

  /** Runs a shell command in the sandbox. Answers when it runs: its output and its end are events, and it outlives us. */
  exec(id: string, command: RunCommand): Promise<StartedCommand>;

  resolvePermission(
    id: string,
    permissionId: string,
    reply: PermissionReply & { by?: string },
  ): Promise<void>;
  resolveQuestion(
    id: string,
    questionId: string,
    reply: (QuestionReply | { rejected: true }) & { by?: string },
  ): Promise<void>;
  resolveTool(id: string, requestId: string, reply: ToolReply & { by?: string }): Promise<void>;

  /** Stops every process of the session where it stands; inputs wait meanwhile. */
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** Where a port that the agent's programs listen on can be reached from this host. */
  host(id: string, port: number): Promise<URL>;

  /** Keeps the files of an idle session, and its agent's own memory with them. */
  checkpoint(id: string, options?: { comment?: string | undefined }): Promise<CheckpointInfo>;
  /** Newest first. */
  checkpoints(id: string, options?: { limit?: number }): Promise<CheckpointInfo[]>;
  /** Of all sessions that keep theirs on this shelf, newest first. */
  shelved(shelf: string | undefined, options?: { limit?: number | undefined }): Promise<CheckpointInfo[]>;
  /** Makes the files of an idle session what a checkpoint kept; the next message resumes the agent from there. */
  restore(id: string, checkpoint: string): Promise<CheckpointInfo>;

  /** The files of the session's sandbox, which is made if there is none yet. */
  files(id: string): Promise<SandboxFiles>;

  stats(): EngineStats;
  /** Refuses new work, gives running turns `graceMs` to end, and lets go; what still runs is found again at the next start. */
  drain(options: { graceMs: number }): Promise<void>;
  /** Lets go at once. */
  close(): Promise<void>;
}

export interface SessionInput {
  readonly content: readonly ContentPart[];
  /** The dialect that it came through. */
  readonly via: string;
  readonly payload?: unknown;
  /**
   * While a turn runs: wait for its end (the default), go into it where the agent can take it, or be refused as
   * `session_busy`, also while a command runs.
   */
  readonly delivery?: "queue" | "steer" | "alone";
  readonly options?: TurnOptions;
  /** A resend with the same key and content appends nothing and gets the same answer. */
  readonly key?: string;
}

export interface InterruptOptions {
  readonly by?: string;
  /** Only this turn: where another one runs, nothing happens. */
  readonly turnId?: string;
  /** Also ends the agent's process, by force where it does not end its turn within moments; the next message resumes it. */
  readonly stop?: boolean;
}

export interface SubmitOptions {
  /** The dialect that it came through. */
  readonly via: string;
  /** A resend with the same key and content appends nothing and gets the same answer. */
  readonly key?: string;
}

export interface Submitted {
  /** The sequence before the first event that this caused: where to read on from. */
  readonly after: number;
  /** One for each submission; undefined for an interrupt where nothing ran. */
  readonly accepted: readonly (Accepted | undefined)[];
  readonly duplicate: boolean;
}

/** The event that a submission became. */
export interface Accepted {
  readonly sequence: number;
  /** Of a message. */
  readonly inputId?: string;
  readonly turnId?: string;
}

export interface AcceptedInput {
  readonly inputId: string;
  readonly turnId: string;
  /** The sequence before the first event that this input caused: where to read on from. */
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
  /** What may be chosen of it, as far as it is known without asking the CLI. */
  readonly modes?: readonly string[];
  readonly models?: readonly string[];
  readonly variants?: readonly string[];
  /** Seed 004's coverage matrix, computed from what the adapter really does. */
  readonly capabilities: Readonly<Record<string, boolean>>;
}

export interface EngineStats {
  readonly sessionsLive: number;
  readonly turnsRunning: number;
  readonly turnsEnded: number;
  readonly processesRunning: number;
  /** Starts of agents: those that wait for others, those under way, all that were let in, and all that were given up before. */
  readonly starts: {
    readonly waiting: number;
    readonly starting: number;
    readonly admitted: number;
    readonly withdrawn: number;
  };
  /** Agents that rest now, how many may, and all that were put to sleep because more did. */
  readonly resting: { readonly agents: number; readonly bound: number; readonly putToSleep: number };
  readonly eventsAppended: number;
  readonly batchesAppended: number;
  readonly appendFailures: number;
}
