import type { AcpState } from "../acp/state.ts";
import { defined, type Fields } from "../fields.ts";
import type { DecodeContext } from "../port.ts";
import { LineReading, type PermissionMetadata } from "../scribe.ts";
import { emptyTranscript, type Origin, own, type Transcript } from "../transcript.ts";
import { agentOf, chooseModel, type ModelRef } from "./provider.ts";

/** The decoder's state. Plain JSON, never changed in place. */
export interface OpencodeState {
  readonly transcript: Transcript<Ask>;
  /** The model, agent and variant of every prompt. */
  readonly wish: Wish;
  /** The main session, once its id is known. Other sessions belong to its sub-agents. */
  readonly session?: string;
  /** Whether the session's id was reported. */
  readonly isTold: boolean;
  readonly turn?: Turn;
  readonly work: Work;
  /** The model that the session used last; a compaction must name one. */
  readonly model?: ModelRef;
  /** The names of MCP servers, by the prefix of their tools. */
  readonly servers: Readonly<Record<string, string>>;
  /** Messages of the last turn. The server reports them again after its end. */
  readonly past: readonly string[];
  readonly lastFailure?: string;
  /** The form of `opencode run`, which ends with its process. */
  readonly run?: { readonly failure?: NativeError };
  /** The form of `opencode acp`. */
  readonly acp?: AcpState;
}

interface Wish {
  readonly model?: ModelRef;
  readonly agent?: string;
  readonly variant?: string;
}

export interface Turn {
  /** Prompts without a message yet. An idle session does not end them. */
  readonly awaited: number;
  readonly hasBegun: boolean;
  readonly isInterrupted: boolean;
  /** Whether the session is idle while a message is incomplete: the turn ends with that message. */
  readonly isIdle: boolean;
  /** The server's own error, as it came. */
  readonly failure?: NativeError;
  /** The end of the session's last model request. */
  readonly finish?: string;
}

/** The work of a turn. The turn's end discards it. */
export interface Work {
  /** The assistant's messages, each of them one model request. */
  readonly messages: Readonly<Record<string, Message>>;
  /** Completed parts. */
  readonly done: Readonly<Record<string, true>>;
  /** Texts with lost deltas. Their rest is reported when they are complete. */
  readonly torn: Readonly<Record<string, true>>;
  readonly calls: Readonly<Record<string, RunningCall>>;
  /** The call that each sub-agent's session works for, by the session's id. */
  readonly children: Readonly<Record<string, string>>;
  /** The server's ids of its requests. */
  readonly asked: readonly string[];
  readonly compaction?: { readonly trigger: string; readonly summary?: string };
}

export interface Message {
  readonly session: string;
  readonly isSummary?: true;
  readonly isComplete?: true;
  /** A failed request is repeated for the same message. */
  readonly request: "open" | "failed" | "ended";
  readonly model: string;
}

interface RunningCall {
  readonly input: unknown;
  /** The reported part of its output. */
  readonly shown: string;
}

export interface NativeError {
  readonly name: string;
  readonly message: string;
  readonly status?: number;
  readonly isRetryable?: boolean;
}

/** The data for the answer to an ask. */
export interface Ask {
  readonly kind: "permission" | "question";
  readonly id: string;
  /** The data of the request, for a report if the server settles it without us. */
  readonly permission?: { readonly action: string; readonly metadata: PermissionMetadata };
  readonly question?: {
    readonly prompt: string;
    readonly options: readonly string[];
    readonly count: number;
  };
}

/** An event of the server's stream. */
export interface NativeEvent {
  readonly id?: unknown;
  readonly type: string;
  readonly properties: Properties;
}

export type Properties = Fields;

/** A part of a message in its present state. */
export interface Part extends Properties {
  readonly id: string;
  readonly messageID: string;
  readonly type: string;
}

export function initialState({ idPrefix, spec }: DecodeContext): OpencodeState {
  const servers = Object.keys(spec.mcp ?? {}).map((name) => [mcpPrefix(name), name]);
  return {
    transcript: emptyTranscript(idPrefix),
    wish: defined({ model: chooseModel(spec), agent: agentOf(spec), variant: spec.variant }),
    isTold: false,
    work: NO_WORK,
    servers: Object.fromEntries(servers) as Record<string, string>,
    past: [],
  };
}

/** The prefix of an MCP server's tools: OpenCode names a tool `<server>_<tool>`, with unusual letters replaced. */
export function mcpPrefix(server: string): string {
  return `${server.replaceAll(/[^a-zA-Z0-9_-]/g, "_")}_`;
}

export const NO_WORK: Work = { messages: {}, done: {}, torn: {}, calls: {}, children: {}, asked: [] };

export class OpencodeReading extends LineReading<OpencodeState, Ask> {
  get work(): Work {
    return this.state.work;
  }

  changeWork(part: Partial<Work>): void {
    this.change({ work: { ...this.work, ...part } });
  }

  changeTurn(part: Partial<Turn>): undefined {
    const { turn } = this.state;
    if (turn) this.change({ turn: { ...turn, ...part } });
  }

  setMessage(id: string, message: Message): void {
    this.changeWork({ messages: { ...this.work.messages, [id]: message } });
  }

  markDone(part: string): void {
    this.changeWork({ done: { ...this.work.done, [part]: true } });
  }

  /** Whether a session is the one that the turns belong to. */
  isMain(session: unknown): boolean {
    return session !== undefined && session === this.state.session;
  }

  /** The agent of a session; undefined for a session that is not ours. */
  originOf(session: unknown): Origin | undefined {
    if (this.isMain(session)) return {};
    const parent = typeof session === "string" ? own(this.work.children, session) : undefined;
    return parent === undefined ? undefined : { parent };
  }
}
