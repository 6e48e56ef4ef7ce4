/** What is measured side by side: sluice, or a peer. */
export interface Contender {
  readonly name: string;
  start(options?: StartOptions): Promise<RunningServer>;
}

export interface StartOptions {
  /** As a user starts it, with whatever stays resident beside the server. */
  readonly plainly?: boolean;
}

export interface RunningServer {
  readonly url: string;
  /** Milliseconds from the start of the process to its first answer. */
  readonly readyMs: number;
  /** All processes of the server itself, without the agents. */
  pids(): readonly number[];
  /** Asks it whether it is well, and waits for the answer. */
  probe(): Promise<void>;
  /** Collects garbage, where there is a way to ask for it. */
  collect(): Promise<void>;
  /** A new session whose agent runs and has answered once, with a long answer unless told otherwise. */
  openSession(first?: { readonly deltas: number }): Promise<BenchSession>;
  /** Sessions that nobody has spoken to, made over HTTP. */
  createIdle(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface BenchSession {
  readonly stream: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** The sequence of the newest event. */
  head(): Promise<number>;
  /** Lets the agent print so many text deltas in one turn; answers when the server has taken it, or at the turn's end. */
  flood(deltas: number): Promise<void>;
  /** How one small turn is asked for, and its marks in the stream. */
  readonly prompt: PromptShape;
  /** Its own text in the last event of a turn. */
  readonly endMark: string;
}

export interface PromptShape {
  readonly url: string;
  /** `%n` stands for the number of the request. */
  readonly body: string;
  /** A text that only events of the agent itself have. */
  readonly agentMark: string;
}

export const DELTA_BYTES = 40;
