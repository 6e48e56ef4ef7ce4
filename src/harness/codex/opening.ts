import type { SessionSpec } from "../../contract/index.ts";
import type { DecodeContext } from "../port.ts";
import type { Params } from "../rpc.ts";

/** The request that opens the conversation, and the mode that every turn of it is in. */
export interface Opening {
  readonly method: "thread/start" | "thread/resume" | "thread/fork";
  readonly params: Params;
  /** Codex plans first and changes nothing. */
  readonly plans: boolean;
  /** Whether a plan is put to somebody, and carried out once it is approved. */
  readonly asksForPlan: boolean;
  readonly effort: string | null;
  /** A conversation that is resumed keeps the developer's words that it began with: today's go along with its turns. */
  readonly amended?: string;
}

export function toOpening(context: DecodeContext): Opening {
  const { spec, workspace, resume, fork } = context;
  const params = {
    cwd: workspace,
    ...policyOf(context),
    ...(spec.model === undefined ? {} : { model: spec.model }),
    ...(spec.systemPrompt === undefined ? {} : { baseInstructions: spec.systemPrompt }),
    ...(spec.instructions === undefined ? {} : { developerInstructions: spec.instructions }),
    // Without them nothing is told of a call that Codex refuses.
    experimentalRawEvents: true,
  };
  const modes = { plans: plansFirst(spec), asksForPlan: plansFirst(spec), effort: spec.variant ?? null };
  if (resume === undefined) {
    return { method: "thread/start", params, ...modes };
  }
  const known = { threadId: resume, excludeTurns: true, ...params };
  const amended = spec.instructions === undefined ? {} : { amended: spec.instructions };
  return { method: fork === true ? "thread/fork" : "thread/resume", params: known, ...modes, ...amended };
}

export function plansFirst({ permissionMode, agentMode }: SessionSpec): boolean {
  return permissionMode === "plan" || agentMode === "plan";
}

type Sandbox = "read-only" | "workspace-write" | "danger-full-access";

/** What Codex does by itself and what it asks for. */
function policyOf(context: DecodeContext): { approvalPolicy: "untrusted" | "never"; sandbox: Sandbox } {
  const { spec } = context;
  if (spec.permissionMode === "bypass") return { approvalPolicy: "never", sandbox: "danger-full-access" };
  const own: Sandbox = plansFirst(spec) ? "read-only" : "workspace-write";
  // Codex's sandbox does not start inside of ours, which already holds what it would hold.
  return { approvalPolicy: "untrusted", sandbox: context.isolated === true ? "danger-full-access" : own };
}
