import type { PlanEntry, ToolSettings, Usage } from "../../contract/index.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";
import type { Totals } from "./usage.ts";

/** What the decoder must remember from line to line. Plain JSON, never changed in place. */
export interface ClaudeState {
  readonly transcript: Transcript<Ask>;
  /** Whether the CLI has answered our greeting: before that, it takes no message. */
  readonly isReady: boolean;
  /** Whether the process has ended: nobody hears what is said to it. */
  readonly isOver: boolean;
  /** Whether anybody has said a word to it on its input; where nobody has, the prompt was an argument. */
  readonly isAddressed: boolean;
  /** Whether a prompt waits for its result. */
  readonly inTurn: boolean;
  /** Whether the CLI has taken the prompt up: before that, an interrupt would drop it without a word. */
  readonly isBegun: boolean;
  /** Whether the main agent has stopped while the turn still waits for what it left running. */
  readonly isIdle: boolean;
  /** Whether the main agent has said anything since the prompt. */
  readonly hasSpoken: boolean;
  /** Messages that stream or have last streamed, by the native id of the sub-agent's call; "" is the main agent. */
  readonly streams: Readonly<Record<string, Stream>>;
  /** The main agent's last request: what it cost is said with the result. */
  readonly unpriced?: { readonly request: string; readonly usage: Usage };
  /** What the requests since the last result have used, and what the CLI had counted up to it. */
  readonly told: Totals;
  readonly counted: Totals;
  /** Messages that the CLI has not begun to answer, by uuid: what the turn began with, and what was said into it. */
  readonly waiting: Readonly<Record<string, "prompt" | "steer">>;
  /** Whether this version tells what becomes of a message. */
  readonly tellsQueue: boolean;
  /** Sub-agents that work in the background: their call, and the CLI's name for them. */
  readonly background: Readonly<Record<string, string>>;
  /** What of a call's input its result needs. */
  readonly inputs: Readonly<Record<string, KeptInput>>;
  /** The plan, by the CLI's task ids. */
  readonly tasks: Readonly<Record<string, PlanEntry>>;
  /** Interrupts that were sent and not acknowledged, by request id, and how many there ever were. */
  readonly interrupts: readonly string[];
  readonly interruptCount: number;
  /** A compaction whose summary is in the next line. */
  readonly compaction?: { readonly trigger?: string };
  /** The CLI's word for the failure that the next result tells of. */
  readonly failure?: string;
  /** MCP servers that were told to have failed. */
  readonly failedServers: readonly string[];
  /** The session's rules of its tools. */
  readonly rules?: ToolSettings["rules"];
  /** What becomes of a plan where nobody is to be asked. */
  readonly plans?: "allow" | "deny";
}

export interface Stream {
  readonly message: string;
  readonly usage: Usage;
  /** Why the model stopped, once it has said so. */
  readonly stop?: string;
  readonly blocks: Readonly<Record<string, Block>>;
}

export interface Block {
  readonly kind: "text" | "reasoning" | "call" | "other";
  /** The id under which the scribe knows it. */
  readonly native: string;
  readonly name?: string;
  /** A call's arguments so far. */
  readonly written?: string;
}

export interface KeptInput {
  readonly path?: string;
  readonly value?: unknown;
}

/** What waits for an answer, and what the answer must repeat. */
export type Ask =
  | {
      readonly kind: "permission";
      readonly request: string;
      readonly tool: string;
      readonly input: unknown;
      /** Rules by which the CLI would not ask again. */
      readonly rules: readonly unknown[];
      readonly metadata: Readonly<Record<string, unknown>>;
    }
  | {
      readonly kind: "question";
      readonly request: string;
      readonly input: Readonly<Record<string, unknown>>;
      readonly questions: readonly AskedQuestion[];
    }
  | {
      readonly kind: "plan";
      readonly request: string;
      readonly input: Readonly<Record<string, unknown>>;
      readonly plan: string;
    };

export interface AskedQuestion {
  readonly text: string;
  readonly options: readonly string[];
  readonly takesMany: boolean;
}

export function initialState(idPrefix: string): ClaudeState {
  return {
    transcript: emptyTranscript(idPrefix),
    isReady: false,
    isOver: false,
    isAddressed: false,
    inTurn: false,
    isBegun: false,
    isIdle: true,
    hasSpoken: false,
    streams: {},
    told: {},
    counted: {},
    waiting: {},
    tellsQueue: false,
    background: {},
    inputs: {},
    tasks: {},
    interrupts: [],
    interruptCount: 0,
    failedServers: [],
  };
}

/** A turn's end is a clean cut: the plan, the counts and the handshake go on. */
export function atTurnsEdge(state: ClaudeState): ClaudeState {
  const { unpriced: _, failure: __, ...rest } = state;
  return {
    ...rest,
    inTurn: false,
    isIdle: true,
    hasSpoken: false,
    streams: {},
    waiting: {},
    background: {},
    inputs: {},
  };
}
