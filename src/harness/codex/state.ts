import type { SessionSpec } from "../../contract/index.ts";
import { defined } from "../fields.ts";
import type { DecodeContext } from "../port.ts";
import type { Params, RpcId } from "../rpc.ts";
import type { LineReading, PermissionMetadata } from "../scribe.ts";
import { emptyTranscript, type Origin, own, type Transcript } from "../transcript.ts";

/** The decoder's state. Plain JSON, never changed in place. */
export interface CodexState {
  readonly transcript: Transcript<Ask>;
  /** The request that opens the conversation after `initialize`. */
  readonly opening: Opening;
  /** Our requests that wait for their response: id → method. */
  readonly requests: Readonly<Record<string, string>>;
  /** The conversation; every other thread on the connection is a sub-agent's. */
  readonly thread?: string;
  readonly model?: string;
  /** The error that prevented the conversation. */
  readonly broken?: { readonly code: string; readonly message: string };
  /** Whether sluice is the client; a recording may have another. */
  readonly driven: boolean;
  /** Whether the turn of a sent prompt is still open. */
  readonly prompted: boolean;
  /** Whether the prompt asked for a compaction. */
  readonly compacting: boolean;
  /** Whether the model failed and Codex stopped. Codex then waits for a retry. */
  readonly halted: boolean;
  /** The CLI's id of the turn that runs. */
  readonly turn?: string;
  /** The plan that the running turn proposed. */
  readonly plan?: string;
  /** The call of a plan after the decision, until the next turn begins. */
  readonly decided?: { readonly call: string; readonly approved: boolean };
  /** Calls whose permission requests do not repeat the arguments, by item. */
  readonly calls: Readonly<Record<string, KnownCall>>;
  /** The model's calls without a result, by id. */
  readonly unanswered?: Readonly<Record<string, UnansweredCall>>;
  /** The item of the newest call that makes a sub-agent. */
  readonly spawning?: string;
  /** Sub-agents, by their thread. */
  readonly agents: Readonly<Record<string, SubAgent>>;
  /** Usage of each thread at its last report. */
  readonly used: Readonly<Record<string, TokenCounts>>;
}

/** The request that opens the conversation, and the mode of all its turns. */
export interface Opening {
  readonly method: "thread/start" | "thread/resume" | "thread/fork";
  readonly params: Params;
  /** Whether Codex plans first and changes nothing. */
  readonly plans: boolean;
  /** Whether a person approves the plan before it is carried out. */
  readonly asksForPlan: boolean;
  readonly effort: string | null;
  /**
   * The present instructions. They go with each turn, because a resumed conversation keeps its first developer message.
   */
  readonly amended?: string;
}

interface KnownCall {
  readonly name: string;
  readonly input: unknown;
  readonly thread: string;
}

interface UnansweredCall extends KnownCall {
  /** Whether the call was reported as an item. Only its result closes that item. */
  readonly told?: true;
}

interface SubAgent {
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

/** The data for an answer: Codex's request, and the form of its response. */
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

/** Our own request: Codex ends the turn with its plan and leaves the approval to its client. */
interface PlanAsk {
  readonly kind: "plan";
  readonly call: string;
}

export interface AskedPermission {
  readonly action: string;
  readonly metadata: PermissionMetadata;
}

interface AskedPrompt {
  readonly prompt: string;
  readonly options: readonly string[];
}

interface Field {
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

export function toOpening(context: DecodeContext): Opening {
  const { spec, workspace, resume, fork } = context;
  const params = {
    cwd: workspace,
    ...policyOf(context),
    ...defined({
      model: spec.model,
      baseInstructions: spec.systemPrompt,
      developerInstructions: spec.instructions,
    }),
    // Codex reports a refused call only in these events.
    experimentalRawEvents: true,
  };
  const modes = { plans: plansFirst(spec), asksForPlan: plansFirst(spec), effort: spec.variant ?? null };
  if (resume === undefined) return { method: "thread/start", params, ...modes };
  return {
    method: fork === true ? "thread/fork" : "thread/resume",
    params: { threadId: resume, excludeTurns: true, ...params },
    ...modes,
    ...defined({ amended: spec.instructions }),
  };
}

function plansFirst({ permissionMode, agentMode }: SessionSpec): boolean {
  return permissionMode === "plan" || agentMode === "plan";
}

type Sandbox = "read-only" | "workspace-write" | "danger-full-access";

/** Codex's policy: the actions that are free, and those that it asks for. */
function policyOf(context: DecodeContext): { approvalPolicy: "untrusted" | "never"; sandbox: Sandbox } {
  const { spec } = context;
  if (spec.permissionMode === "bypass") return { approvalPolicy: "never", sandbox: "danger-full-access" };
  // Codex's sandbox does not start inside of ours, and ours isolates already.
  if (context.isolated === true) return { approvalPolicy: "untrusted", sandbox: "danger-full-access" };
  return { approvalPolicy: "untrusted", sandbox: plansFirst(spec) ? "read-only" : "workspace-write" };
}

export type Reading = LineReading<CodexState, Ask>;

/** Whether a thread is the conversation itself. Every thread counts as such until the conversation's id is known. */
export function isMain({ state }: Reading, thread: string | undefined): boolean {
  return thread === undefined || state.thread === undefined || thread === state.thread;
}

/** The agent of a thread: a sub-agent by the call that made it. */
export function originOf(reading: Reading, thread: string | undefined): Origin {
  if (isMain(reading, thread)) return {};
  return { parentItem: own(reading.state.agents, thread ?? "")?.item ?? reading.state.spawning };
}

export function changeAgent(reading: Reading, thread: string, part: Partial<SubAgent>): void {
  const { agents } = reading.state;
  reading.change({ agents: { ...agents, [thread]: { ...own(agents, thread), ...part } } });
}

/** Starts the thread's model request, unless it runs. Codex reports only its end. */
export function ensureModel(reading: Reading, thread: string | undefined): void {
  const { scribe, state } = reading;
  scribe.startModel(modelKey(reading, thread), { model: state.model, ...originOf(reading, thread) });
}

/** One request at a time runs for each thread. */
export function modelKey(reading: Reading, thread: string | undefined): string {
  return isMain(reading, thread) ? "main" : (thread ?? "main");
}

export function toLine(message: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(message);
}
