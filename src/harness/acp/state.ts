import type { ContentPart } from "../../contract/index.ts";
import type { DecodeContext } from "../port.ts";
import type { RpcId } from "../rpc.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";
import { type AcpMcpServer, toMcpServers } from "./mcp.ts";

/** What the decoder of an ACP agent remembers from line to line. Plain JSON, never changed in place. */
export interface AcpState {
  readonly transcript: Transcript<AcpAsk>;
  readonly phase: "greeting" | "opening" | "tuning" | "ready" | "failed";
  /** What the session is to be; forgotten once it is open. */
  readonly wishes?: Wishes;
  readonly agent?: AgentOffer;
  readonly session?: string;
  /** Requests to the agent that wait for its answer: id and method. */
  readonly sent: Readonly<Record<string, string>>;
  /** A session is being loaded: what it replays was told before. */
  readonly isReplaying?: boolean;
  /** Somebody asked the running turn to stop. */
  readonly isCancelled?: boolean;
  /** Said with a rejection: the agent hears it when its turn is over. */
  readonly words: readonly string[];
  /** The names of the MCP servers, for agents that melt them into their tools' names. */
  readonly servers: readonly string[];
  /** The text that streams at each place: "" is the agent itself, else a sub-agent's session. */
  readonly speaking: Readonly<Record<string, Speech>>;
  readonly tools: Readonly<Record<string, ToolNotes>>;
  /** Calls that were denied, and whose end has not been told. */
  readonly denied: readonly string[];
  /** A call that is over, while the agent may still tell more of its outcome. */
  readonly held?: { readonly call: string; readonly fields: Readonly<Record<string, unknown>> };
  /** What the session has cost so far, and how much of that earlier turns have told. */
  readonly cost: { readonly total: number; readonly told: number };
  /** A dialect's own notes. */
  readonly aside: Readonly<Record<string, string>>;
}

export interface Wishes {
  readonly cwd: string;
  readonly mcpServers: readonly AcpMcpServer[];
  readonly resume?: string;
  readonly fork?: boolean;
  readonly agentMode?: string;
  readonly permissionMode?: string;
  readonly model?: string;
  readonly variant?: string;
}

/** What an agent said that it can do, as far as opening a session needs it. */
export interface AgentOffer {
  readonly canLoad: boolean;
  readonly canResume: boolean;
  readonly canFork: boolean;
  readonly auth?: string;
}

export interface Speech {
  readonly native: string;
  readonly kind: "text" | "reasoning";
  readonly message?: string;
}

export interface ToolNotes {
  readonly name: string;
  readonly kind: string;
  readonly title: string;
  readonly input?: unknown;
  readonly isSettled?: boolean;
  readonly isDone?: boolean;
  /** What of its output has been told. */
  readonly shown: string;
  /** The files that it changes, as its updates name them. */
  readonly files: readonly ContentPart[];
}

/** A request of the agent that somebody has to answer. */
export interface AcpAsk {
  readonly rpc: RpcId;
  readonly kind: "permission" | "question" | "plan";
  readonly call?: string;
  readonly options?: readonly { readonly id: string; readonly kind: string }[];
  readonly questions?: readonly string[];
}

export function initialState(context: DecodeContext): AcpState {
  return {
    transcript: emptyTranscript<AcpAsk>(context.idPrefix),
    phase: "greeting",
    wishes: toWishes(context),
    sent: {},
    words: [],
    servers: Object.keys(context.spec.mcp ?? {}),
    speaking: {},
    tools: {},
    denied: [],
    cost: { total: 0, told: 0 },
    aside: {},
  };
}

function toWishes({ spec, workspace, resume, fork }: DecodeContext): Wishes {
  const { agentMode, permissionMode, model, variant } = spec;
  return {
    cwd: workspace,
    mcpServers: toMcpServers(spec.mcp ?? {}),
    ...(resume === undefined ? {} : { resume }),
    ...(fork === true ? { fork } : {}),
    ...(agentMode === undefined ? {} : { agentMode }),
    ...(permissionMode === undefined ? {} : { permissionMode }),
    ...(model === undefined ? {} : { model }),
    ...(variant === undefined ? {} : { variant }),
  };
}
