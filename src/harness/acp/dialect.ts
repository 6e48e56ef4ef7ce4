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
  /** A call's arguments are complete. */
  settled?(reading: AcpReading, call: string, tool: NamedTool): void;
  /** The agent's own requests and notifications. False for an unknown one. */
  extension?(reading: AcpReading, message: Extract<RpcMessage, { method: string }>): boolean;
  /** The result for one of its own requests. */
  answer?(ask: AcpAsk, command: Answer): unknown;
  /** The inverse of `answer`. */
  fromAnswer?(ask: AcpAsk, result: Params): AnswerBody | undefined;
  /** The request for a message into a running turn, and its inverse. */
  steer?: {
    readonly method: string;
    params(session: string, text: string): Params;
    text(params: Params): string;
  };
  /** Updates of another session id are those of a sub-agent. */
  readonly hasChildren?: boolean;
  /** The turn has ended: the dialect may forget its notes. */
  ended?(reading: AcpReading): void;
  /** Updates that another message replaces. */
  ignores?(reading: AcpReading, update: Params): boolean;
  /** Sees a message before it is read. */
  before?(reading: AcpReading, message: RpcMessage): void;
  /** Whether more of a finished call's outcome will follow. */
  holds?(reading: AcpReading): boolean;
  /** It sends plan updates, so its to-do tool need not be read. */
  readonly reportsPlans?: boolean;
  /** Forks a session, where the protocol's own way is not offered. */
  fork?: {
    readonly method: string;
    params(wishes: Wishes): Params;
    session(result: Params): string | undefined;
  };
  /** The lines of its other modes, for reading recordings. */
  readonly forms?: readonly PrintedForm[];
  /** Details of a turn's end, such as why it was cancelled. */
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
