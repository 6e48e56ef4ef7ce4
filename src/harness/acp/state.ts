import type { ContentPart } from "../../contract/index.ts";
import { defined, type Fields } from "../fields.ts";
import { type McpForm, toMcpServers } from "../launch/mcp.ts";
import type { DecodeContext } from "../port.ts";
import type { RpcId } from "../rpc.ts";
import { emptyTranscript, type Transcript } from "../transcript.ts";

/** The decoder's state of an ACP agent. Plain JSON, never changed in place. */
export interface AcpState {
  readonly transcript: Transcript<AcpAsk>;
  readonly phase: "greeting" | "opening" | "tuning" | "ready" | "failed";
  /** The settings of the session, until it is open. */
  readonly wishes?: Wishes;
  readonly agent?: AgentOffer;
  readonly session?: string;
  /** Requests to the agent that wait for its answer: id and method. */
  readonly sent: Readonly<Record<string, string>>;
  /** Whether a session is being loaded. The agent then repeats messages that the log already has. */
  readonly isReplaying?: boolean;
  /** Whether the running turn was interrupted. */
  readonly isCancelled?: boolean;
  /** The messages of rejections. The agent gets them after its turn. */
  readonly words: readonly string[];
  /** The names of the MCP servers, for agents that join them with the names of tools. */
  readonly servers: readonly string[];
  /** The open text of each origin: "" is the agent itself, else a sub-agent's session. */
  readonly speaking: Readonly<Record<string, Speech>>;
  readonly tools: Readonly<Record<string, ToolNotes>>;
  /** Denied calls without a result. */
  readonly denied: readonly string[];
  /** A finished call that may still get more of its outcome. */
  readonly held?: { readonly call: string; readonly fields: Readonly<Record<string, unknown>> };
  /** The session's cost so far, and the part of it that was reported. */
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

/** The agent's abilities that concern the opening of a session. */
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
  /** The name and the arguments are final: the call has been reported as completed. */
  readonly isSettled?: boolean;
  /** The result has been reported. */
  readonly isDone?: boolean;
  /** The reported part of its output. */
  readonly shown: string;
  /** The files that its updates name. */
  readonly files: readonly ContentPart[];
}

/** A request of the agent to a person. */
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

/** Whether a prompt waits for its answer. */
export function isRunning({ sent }: AcpState): boolean {
  return Object.values(sent).includes("session/prompt");
}

function toWishes({ spec, workspace, resume, fork }: DecodeContext): Wishes {
  const { agentMode, permissionMode, model, variant } = spec;
  return {
    cwd: workspace,
    mcpServers: Object.values(toMcpServers(spec.mcp, MCP_FORM)),
    ...defined({ resume, fork: fork || undefined, agentMode, permissionMode, model, variant }),
  };
}

/** An MCP server as ACP's `session/new` names it. Inherited variables have no field: the agent hands them on. */
type AcpMcpServer = Fields;

const MCP_FORM: McpForm<AcpMcpServer> = {
  remote: ({ type, url, headers }, name) => ({ type, name, url, headers: toPairs(headers) }),
  local: ({ command, args = [], env }, name) => ({ name, command, args, env: toPairs(env) }),
};

function toPairs(map: Readonly<Record<string, string>> | undefined): { name: string; value: string }[] {
  return Object.entries(map ?? {}).map(([name, value]) => ({ name, value }));
}
