import type { AcpState } from "../acp/state.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";
import type { DecodeContext } from "../port.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { mcpPrefix } from "./tool-name.ts";
import { chooseModel, type ModelRef } from "./model.ts";
import { agentOf } from "./agent.ts";

/** What the decoder must remember from line to line. Plain JSON, never changed in place. */
export interface OpencodeState {
  readonly transcript: Transcript<Ask>;
  /** What every prompt says beside its words. */
  readonly wish: Wish;
  /** The session that the turns are about, once the server has said its id; others are its sub-agents'. */
  readonly session?: string;
  /** Whether the session's id was told. */
  readonly isTold: boolean;
  readonly turn?: Turn;
  readonly work: Work;
  /** The model that the session used last; a compaction must name one. */
  readonly model?: ModelRef;
  /** The names of MCP servers, by what the names of their tools begin with. */
  readonly servers: Readonly<Record<string, string>>;
  /** Messages of the turn before: the server tells of them once more when it is over. */
  readonly past: readonly string[];
  /** What the last failed turn failed of. */
  readonly lastFailure?: string;
  /** `opencode run` speaks another form; it ends with its process. */
  readonly run?: { readonly failure?: NativeError };
  /** So does `opencode acp`. */
  readonly acp?: AcpState;
}

export interface Wish {
  readonly model?: ModelRef;
  readonly agent?: string;
  readonly variant?: string;
}

/** One prompt and what follows from it. */
export interface Turn {
  /** Prompts that were sent and whose message has not been seen: the session's idle is not theirs. */
  readonly awaited: number;
  readonly hasBegun: boolean;
  readonly isInterrupted: boolean;
  /** It was idle although a message was not complete: the end comes with the message. */
  readonly isIdle: boolean;
  /** The server's own error, as it came. */
  readonly failure?: NativeError;
  /** How the last model request of the session ended. */
  readonly finish?: string;
}

/** What is under way; a turn's end is a clean cut through it. */
export interface Work {
  /** The assistant's messages, each of them one model request. */
  readonly messages: Readonly<Record<string, Message>>;
  /** Parts of which nothing more is to be told. */
  readonly done: Readonly<Record<string, true>>;
  /** Texts of which deltas were lost: the rest is told when they are complete. */
  readonly torn: Readonly<Record<string, true>>;
  readonly calls: Readonly<Record<string, RunningCall>>;
  /** The sessions of sub-agents, by the call that each works for. */
  readonly children: Readonly<Record<string, string>>;
  /** The server's ids of what it has asked. */
  readonly asked: readonly string[];
  readonly compaction?: { readonly trigger: string; readonly summary?: string };
}

export interface Message {
  readonly session: string;
  readonly isSummary?: true;
  readonly isComplete?: true;
  /** A request that failed is made again for the same message. */
  readonly request: "open" | "failed" | "ended";
  readonly model: string;
}

export interface RunningCall {
  readonly input: unknown;
  /** What of its output was told. */
  readonly shown: string;
}

export interface NativeError {
  readonly name: string;
  readonly message: string;
  readonly status?: number;
  readonly isRetryable?: boolean;
}

/** How the answer to an ask is carried. */
export interface Ask {
  readonly kind: "permission" | "question";
  readonly id: string;
  /** What it was asked with, to be said again if the server settles it without us. */
  readonly permission?: { readonly action: string; readonly metadata: PermissionMetadata };
  readonly question?: {
    readonly prompt: string;
    readonly options: readonly string[];
    readonly count: number;
  };
}

export function initialState({ idPrefix, spec }: DecodeContext): OpencodeState {
  const model = chooseModel(spec);
  const agent = agentOf(spec);
  const servers = Object.keys(spec.mcp ?? {}).map((name) => [mcpPrefix(name), name]);
  return {
    transcript: emptyTranscript(idPrefix),
    wish: {
      ...(model === undefined ? {} : { model }),
      ...(agent === undefined ? {} : { agent }),
      ...(spec.variant === undefined ? {} : { variant: spec.variant }),
    },
    isTold: false,
    work: NO_WORK,
    servers: Object.fromEntries(servers) as Record<string, string>,
    past: [],
  };
}

export const NO_WORK: Work = { messages: {}, done: {}, torn: {}, calls: {}, children: {}, asked: [] };
