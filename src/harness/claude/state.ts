import type { PlanEntry, ToolSettings, Usage } from "../../contract/index.ts";
import { type Fields, toText } from "../fields.ts";
import type { LineReading } from "../scribe.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";

/** The decoder's state. Plain JSON, never changed in place. */
export interface ClaudeState {
  readonly transcript: Transcript<Ask>;
  readonly phase: Phase;
  /** Whether the process has exited and no longer reads its stdin. */
  readonly isOver: boolean;
  /** Whether the main agent has stopped, though the turn may wait for its background work. */
  readonly isIdle: boolean;
  /** Whether the main agent has written any text since the prompt. */
  readonly hasSpoken: boolean;
  /** Messages that stream or have last streamed, by the native id of the sub-agent's call; "" is the main agent. */
  readonly streams: Readonly<Record<string, Stream>>;
  /** The main agent's last request. It ends with the result, which has its cost. */
  readonly unpriced?: { readonly request: string; readonly usage: Usage };
  /** The usage that was reported since the last result. */
  readonly told: Usage;
  /** The CLI's own count up to the last result. */
  readonly counted: Usage;
  /** Messages that the CLI has not begun to answer, by uuid: the turn's prompt, and later messages. */
  readonly waiting: Readonly<Record<string, "prompt" | "steer">>;
  /** Whether this version reports the state of queued messages. */
  readonly tellsQueue: boolean;
  /** Background sub-agents: the id of the call, and the CLI's name of the agent. */
  readonly background: Readonly<Record<string, string>>;
  /** The items of the calls that started sub-agents, by the CLI's id of the agent. */
  readonly agents?: Readonly<Record<string, string>>;
  /** Parts of a call's input that its result needs. */
  readonly inputs: Readonly<Record<string, KeptInput>>;
  /** The plan, by the CLI's task ids. */
  readonly tasks: Readonly<Record<string, PlanEntry>>;
  /** Interrupts without an acknowledgement, by request id, and the count of all interrupts. */
  readonly interrupts: readonly string[];
  readonly interruptCount: number;
  /** A compaction whose summary may be the next line. */
  readonly compaction?: { readonly trigger?: string };
  /** The CLI's name of the failure that the next result reports. */
  readonly failure?: string;
  /** MCP servers whose failure was reported. */
  readonly failedServers: readonly string[];
  /** The session's rules of its tools. */
  readonly rules?: ToolSettings["rules"];
  /** The verdict on a plan, where no person decides. */
  readonly plans?: "allow" | "deny";
}

export interface Stream {
  readonly message: string;
  readonly usage: Usage;
  /** The model's stop reason, once it is known. */
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

/** An open ask, with the data that its answer must repeat. */
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

export type Reading = LineReading<ClaudeState, Ask>;

/** Reads one parsed line. Returns the problem of an unknown or malformed one. */
export type Reader = (reading: Reading, line: Fields) => string | undefined;

/**
 * How far the conversation with the CLI is:
 * - `greeting`: the CLI has not answered yet, so we send no message. A recording may contain one nevertheless.
 * - `ready`: no prompt was sent on stdin. A prompt may have come as an argument, so output belongs to a turn.
 * - `prompted`: a prompt was sent that the CLI has not begun. An interrupt would drop it without a report.
 * - `running`: the CLI works on the prompt.
 * - `resting`: the turn has ended; output belongs to no turn.
 */
export type Phase = "greeting" | "ready" | "prompted" | "running" | "resting";

export const PHASES: Readonly<Record<Phase, Partial<Record<PhaseStep, Phase>>>> = {
  greeting: { answered: "ready", prompted: "prompted" },
  ready: { prompted: "prompted" },
  prompted: { begun: "running", ended: "resting" },
  running: { ended: "resting" },
  resting: { prompted: "prompted" },
};

export type PhaseStep = "answered" | "prompted" | "begun" | "ended";

export function nextPhase(phase: Phase, step: PhaseStep): Phase {
  return PHASES[phase][step] ?? phase;
}

/** Whether a prompt of stdin waits for its result. */
export function isInTurn({ phase }: ClaudeState): boolean {
  return phase === "prompted" || phase === "running";
}

/** Whether output belongs to a turn. */
export function isServing({ phase }: ClaudeState): boolean {
  return phase !== "resting";
}

/** The native id of the call that started the sub-agent of this line. */
export function parentOf(line: Fields): string | undefined {
  return toText(line["parent_tool_use_id"]) || undefined;
}

export function initialState(idPrefix: string): ClaudeState {
  return {
    transcript: emptyTranscript(idPrefix),
    phase: "greeting",
    isOver: false,
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

/** The state that version 0.1.0 saved has flags in place of the phase. */
export function restoreState(saved: ClaudeState): ClaudeState {
  if (saved.phase in PHASES) return saved;
  const { isReady, isAddressed, inTurn, isBegun } = saved as unknown as Readonly<Record<string, boolean>>;
  if (inTurn) return { ...saved, phase: isBegun ? "running" : "prompted" };
  if (isAddressed) return { ...saved, phase: "resting" };
  return { ...saved, phase: isReady ? "ready" : "greeting" };
}
