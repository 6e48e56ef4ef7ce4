/** A server that is measured: sluice, or a peer. */
export interface Contender {
  readonly name: string;
  start(options?: StartOptions): Promise<RunningServer>;
}

export interface StartOptions {
  /** As a user starts it, including launchers that stay resident. */
  readonly plainly?: boolean;
}

export interface RunningServer {
  readonly url: string;
  /** Milliseconds from the start of the process to its first answer. */
  readonly readyMs: number;
  /** All processes of the server itself, without the agents. */
  pids(): readonly number[];
  /** One health request. */
  probe(): Promise<void>;
  /** Collects garbage, where the server can be asked to. */
  collect(): Promise<void>;
  /** A new session with a running agent that has answered once, with a long answer by default. */
  openSession(first?: { readonly deltas: number }): Promise<BenchSession>;
  /** Sessions without a message, made over HTTP. */
  createIdle(count: number): Promise<void>;
  stop(): Promise<void>;
}

export interface BenchSession {
  readonly stream: { readonly url: string; readonly headers: Readonly<Record<string, string>> };
  /** The sequence of the newest event. */
  head(): Promise<number>;
  /** Makes the agent print this many text deltas in one turn. Resolves when the server has accepted it, or at the turn's end. */
  flood(deltas: number): Promise<void>;
  /** The request of one small turn, and its marks in the stream. */
  readonly prompt: PromptShape;
  /** A text that only the last event of a turn has. */
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
