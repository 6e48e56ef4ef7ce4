import type { EventData, Usage } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import type { Params, RpcMessage } from "../rpc.ts";
import { LineReading } from "../scribe.ts";
import type { AcpAsk, AcpState, Wishes } from "./state.ts";

export class AcpReading extends LineReading<AcpState, AcpAsk> {
  readonly dialect: AcpDialect;

  constructor(dialect: AcpDialect, state: AcpState) {
    super(state);
    this.dialect = dialect;
  }
}

/** An agent's additions to the protocol, and its deviations. All of it is pure. */
export interface AcpDialect {
  /** A tool's own name and arguments, where an update hides them. */
  tool?(fields: Params, reading: AcpReading): NamedTool | undefined;
  /** The usage in the answer to a prompt. */
  usage?(result: Params, reading: AcpReading): readonly ModelUsage[];
  /** The settings of an open session, or the reason why one is impossible. */
  settings?(wishes: Wishes, offer: Params): readonly Setting[] | string;
  /** Whether the open session is not ready for a prompt yet. */
  awaits?(state: AcpState): boolean;
  /** Called when all arguments of a call are known. */
  settled?(reading: AcpReading, call: string, tool: NamedTool): void;
  /** Reads the agent's own requests and notifications. Returns false for an unknown one. */
  extension?(reading: AcpReading, message: Extract<RpcMessage, { method: string }>): boolean;
  /** The result for a request of the agent's own. */
  answer?(ask: AcpAsk, command: Answer): unknown;
  /** The inverse of `answer`. */
  fromAnswer?(ask: AcpAsk, result: Params): AnswerBody | undefined;
  /** The request that sends a message into a running turn, and its inverse. */
  steer?: {
    readonly method: string;
    params(session: string, text: string): Params;
    text(params: Params): string;
  };
  /** Whether updates of another session id come from a sub-agent. */
  readonly hasChildren?: boolean;
  /** Called at a turn's end: the dialect may forget its notes. */
  ended?(reading: AcpReading): void;
  /** Whether an update is ignored, because another message replaces it. */
  ignores?(reading: AcpReading, update: Params): boolean;
  /** Called with each message before it is read. */
  before?(reading: AcpReading, message: RpcMessage): void;
  /** Whether a finished call may still get more of its outcome. */
  holds?(reading: AcpReading): boolean;
  /** Whether the agent sends plan updates: then its to-do tool is not read for the plan. */
  readonly reportsPlans?: boolean;
  /** Forks a session of an agent that does not offer the protocol's own fork. */
  fork?: {
    readonly method: string;
    params(wishes: Wishes): Params;
    session(result: Params): string | undefined;
  };
  /** The lines of its other modes, for reading recordings. */
  readonly forms?: readonly PrintedForm[];
  /** Details of a turn's end, such as the reason of a cancellation. */
  endDetails?(result: Params): EventData<"turn.ended">["details"];
}

export interface NamedTool {
  readonly name: string;
  readonly input?: unknown;
}

export interface ModelUsage {
  readonly model?: string;
  readonly usage: Usage;
}

export interface Setting {
  readonly id: string;
  readonly method: string;
  readonly params: Params;
}

type Permission = Extract<HarnessCommand, { type: "permission" }>;
type Question = Extract<HarnessCommand, { type: "question" }>;

export type Answer = Permission | Question;

/** An answer without our id of the ask. */
export type AnswerBody = Omit<Permission, "id"> | Omit<Question, "id">;

/** The printed lines of a CLI without a protocol. */
export interface PrintedForm {
  matches(line: Params): boolean;
  /** Reads a line. Returns the problem of an unknown or malformed one. */
  read(reading: AcpReading, line: Params): string | undefined;
}
