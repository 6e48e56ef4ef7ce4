import type { EventData, Usage } from "../../contract/index.ts";
import type { HarnessCommand } from "../port.ts";
import type { Params, RpcMessage } from "../rpc.ts";
import type { Hand } from "./hand.ts";
import type { AcpAsk, AcpState, Wishes } from "./state.ts";

/** What one agent adds to the protocol, or does in its own way. All of it is pure. */
export interface AcpDialect {
  /** A tool's own name and arguments, where an update hides them. */
  tool?(fields: Params, hand: Hand): NamedTool | undefined;
  /** What was used, from the answer to a prompt. */
  usage?(result: Params, hand: Hand): readonly ModelUsage[];
  /** What must be set once the session is open; a text is the reason why it cannot be. */
  settings?(wishes: Wishes, offer: Params): readonly Setting[] | string;
  /** Whether it should not be prompted yet, though its session is open. */
  awaits?(state: AcpState): boolean;
  /** A call's arguments are all there. */
  settled?(hand: Hand, call: string, tool: NamedTool): void;
  /** The agent's own requests and notifications. False: it does not know this one. */
  extension?(hand: Hand, message: Extract<RpcMessage, { method: string }>): boolean;
  /** The result that carries an answer to one of its own requests. */
  answer?(ask: AcpAsk, command: Answer): unknown;
  /** The way back from `answer`. */
  hear?(ask: AcpAsk, result: Params): NamelessAnswer | undefined;
  /** The line that carries more words into a running turn, and the way back from it. */
  steer?: {
    readonly method: string;
    params(session: string, text: string): Params;
    text(params: Params): string;
  };
  /** Updates of another session id are those of a sub-agent. */
  readonly hasChildren?: boolean;
  /** A turn is over: what the dialect noted of it may be forgotten. */
  ended?(hand: Hand): void;
  /** Updates that it tells better in another way. */
  ignores?(hand: Hand, update: Params): boolean;
  /** Looks at a message before it is understood. */
  before?(hand: Hand, message: RpcMessage): void;
  /** Whether more of a finished call's outcome is about to come. */
  holds?(hand: Hand): boolean;
  /** It tells its plan as plan updates, so its to-do tool need not be read. */
  readonly tellsPlans?: boolean;
  /** Continuing a session as another one, where the protocol's own way is not offered. */
  fork?: {
    readonly method: string;
    params(wishes: Wishes): Params;
    session(result: Params): string | undefined;
  };
  /** What it prints in its other modes, for reading recordings. */
  readonly forms?: readonly PrintedForm[];
  /** More facts of a turn's end, such as why it was cancelled. */
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

/** An answer without our id of what it answers. */
export type NamelessAnswer = Omit<Permission, "id"> | Omit<Question, "id">;

/** The lines that a CLI prints when it runs without a protocol. */
export interface PrintedForm {
  isOf(line: Params): boolean;
  /** What a line means; the text says why it means nothing. */
  hear(hand: Hand, line: Params): string | undefined;
}
