import type { EventDraft, SessionSpec } from "../contract/index.ts";
import type { Harness } from "../harness/port.ts";
import type { EventLog } from "../log/port.ts";
import type { CheckpointStorage } from "../sandbox/checkpoint/port.ts";
import type { FileHooks } from "../sandbox/index.ts";
import type { SandboxProvider } from "../sandbox/port.ts";
import type { Limits, Logger, SessionDeps } from "./deps.ts";
import type { Loan } from "./lending.ts";
import type { Recorder } from "./recorder.ts";
import type { RetentionOptions } from "./retention.ts";

export interface EngineOptions {
  readonly log: EventLog;
  /** Spools and sandboxes live here, beside the log. */
  readonly dataDir: string;
  readonly harnesses?: readonly Harness[];
  readonly providers?: readonly SandboxProvider[];
  readonly defaultSandbox?: string;
  readonly limits?: Partial<Limits>;
  /** What is forgotten by itself; nothing unless said, but for sessions with a `ttl`. */
  readonly retention?: RetentionOptions;
  /** How many agents are started at once, twice the cores unless said; the others wait in the order of coming. */
  readonly startsAtOnce?: number;
  /**
   * How many agents without work stay alive until their time is over; half of the memory at 50 MB each unless said, and 16
   * at least. Beyond that, the longest resting one is put to sleep.
   */
  readonly restingAgents?: number;
  /** Where checkpoints are kept; a folder beside the log unless told otherwise. */
  readonly checkpointStorage?: CheckpointStorage;
  /** Where the checkpoints of a shelf are, if not in a part of that storage. */
  readonly shelves?: (shelf: string) => CheckpointStorage | undefined;
  /** Called on every change of a file in any session; one that throws is logged and changes nothing. */
  readonly fileHooks?: FileHooks;
  readonly logger?: Logger;
  /** How long idle agents live when this process is killed and none takes its place; 0 leaves them, as it is unless said. */
  readonly orphanMs?: number;
  /**
   * Whether the engine answers before everything is picked up that an earlier life left running. Then a call to such a
   * session waits for that session alone.
   */
  readonly recoversBeside?: boolean;
  /** Picks up what others left behind, and starts nothing. */
  readonly caretakes?: boolean;
  /** Told every line of every process, in both directions. */
  readonly recorder?: Recorder;
  /**
   * What a session's processes are started with in place of its spec, such as MCP servers by the way that holds their
   * credentials. Asked at every start, stored nowhere; the same session is given the same for as long as it can be.
   */
  readonly equip?: (session: string, spec: SessionSpec) => Promise<SessionSpec>;
  /** Whether an MCP server refused the session or was not there, for agents that cannot tell. */
  readonly mcpVerdict?: SessionDeps["mcpVerdict"];
  /** Secrets that the session's sandbox may use without having them. Asked at every start; the same placeholders each time. */
  readonly lend?: (session: string) => Promise<Loan | undefined>;
  /** Names that may lie in a private network, for every session: the model gateway of a company, for one. */
  readonly privateHosts?: readonly string[];
  /** Told of every commit, after it; with no events where a session was made. It may not throw or wait. */
  readonly onCommit?: (session: string, events: readonly EventDraft[]) => void;
  /** Values that must never reach an event, by name: the server's own token, for one. */
  readonly secrets?: ReadonlyMap<string, string>;
}
