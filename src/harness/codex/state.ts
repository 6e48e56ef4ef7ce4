import type { Params, RpcId } from "../rpc.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";
import type { DecodeContext } from "../port.ts";
import { toOpening, type Opening } from "./opening.ts";

/** What the decoder must remember from line to line. Plain JSON, never changed in place. */
export interface CodexState {
  readonly transcript: Transcript<Ask>;
  /** How the conversation is opened once the server has introduced itself. */
  readonly opening: Opening;
  /** Our requests that wait for their response: id → method. */
  readonly requests: Readonly<Record<string, string>>;
  /** The conversation; every other thread on the connection is a sub-agent's. */
  readonly thread?: string;
  readonly model?: string;
  /** Why there is no conversation. */
  readonly broken?: { readonly code: string; readonly message: string };
  /** Whether it is we who talk to it; a recording may hold any client. */
  readonly driven: boolean;
  /** A prompt was sent whose end has not been told. */
  readonly prompted: boolean;
  /** The prompt was to compact the context. */
  readonly compacting: boolean;
  /** The model failed and Codex has given up: it stands still until it is told to try again. */
  readonly halted: boolean;
  /** The CLI's id of the turn that runs. */
  readonly turn?: string;
  /** The plan that the running turn proposed. */
  readonly plan?: string;
  /** The call that stands for a plan that was decided on, until what follows has begun. */
  readonly decided?: { readonly call: string; readonly approved: boolean };
  /** Calls that may be asked about by a request that does not repeat them, by item. */
  readonly calls: Readonly<Record<string, KnownCall>>;
  /** Calls that the model made and has no answer to yet, by their id. */
  readonly unanswered?: Readonly<Record<string, UnansweredCall>>;
  /** The item of the newest call that makes a sub-agent. */
  readonly spawning?: string;
  /** Sub-agents, by their thread. */
  readonly agents: Readonly<Record<string, SubAgent>>;
  /** What each thread had used at its last report. */
  readonly used: Readonly<Record<string, TokenCounts>>;
}

export interface KnownCall {
  readonly name: string;
  readonly input: unknown;
  readonly thread: string;
}

export interface UnansweredCall extends KnownCall {
  /** It was told as an item that only its answer closes. */
  readonly told?: true;
}

export interface SubAgent {
  /** The item of the call that made it. */
  readonly item?: string;
  readonly turn?: string;
}

export interface TokenCounts {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
  readonly reasoning: number;
}

/** What is needed to carry an answer: the CLI's request, and how it wants to be answered. */
export type Ask = AskOfCodex | PlanAsk;

interface Asked {
  readonly id: RpcId;
  readonly thread: string;
}

export type AskOfCodex = Asked &
  (
    | { readonly kind: "decision" | "elicitation"; readonly permission: AskedPermission }
    | { readonly kind: "grant"; readonly permission: AskedPermission; readonly permissions: Params }
    | { readonly kind: "form"; readonly prompt: AskedPrompt; readonly fields: readonly Field[] }
    | { readonly kind: "question"; readonly prompt: AskedPrompt; readonly questions: readonly string[] }
    | { readonly kind: "tool"; readonly name: string }
  );

/** Our own question: Codex ends the turn with its plan and leaves the rest to its client. */
export interface PlanAsk {
  readonly kind: "plan";
  readonly call: string;
}

export interface AskedPermission {
  readonly action: string;
  readonly metadata: PermissionMetadata;
}

export interface AskedPrompt {
  readonly prompt: string;
  readonly options: readonly string[];
}

export interface Field {
  readonly name: string;
  readonly type: string;
}

export function initialState(context: DecodeContext): CodexState {
  return {
    transcript: emptyTranscript<Ask>(context.idPrefix),
    opening: toOpening(context),
    requests: {},
    driven: false,
    prompted: false,
    compacting: false,
    halted: false,
    calls: {},
    agents: {},
    used: {},
  };
}
