import type { AgentPlanEntry, AgentUsage, FailureKind } from "../protocol.ts";
import type { ModelFailureKind } from "./model-failure.ts";

/** The step language, after parsing: one `do` per row of its table, options filled in. */
export type Step =
  | ToolStep
  | QuestionStep
  | SleepStep
  | { do: "say" | "think"; text: string; chunks?: number }
  | { do: "plan"; entries: AgentPlanEntry[] }
  | { do: "parallel"; steps: BranchStep[] }
  | { do: "usage"; usage: AgentUsage }
  | { do: "fail"; kind: FailureKind | ModelFailureKind; times: number }
  | { do: "refuse"; reason: string }
  | { do: "compact" }
  | { do: "flood"; events: number; bytes: number }
  | { do: "image"; data: string; mime: string }
  | { do: "stderr" | "raw"; text: string }
  | { do: "rawBytes"; bytes: Uint8Array }
  | { do: "exit"; code: number }
  | { do: "signal"; signal: NodeJS.Signals };

/** What can stand behind a permission. */
export type BareToolStep =
  | { do: "shell"; command: string }
  | { do: "write"; path: string; content: string }
  | { do: "edit"; path: string; old: string; new: string }
  | { do: "read" | "delete"; path: string }
  | { do: "custom"; name: string; input: unknown }
  | { do: "mcp"; server: string; tool: string; input: unknown }
  | { do: "subagent"; name: string; steps: Step[] };

export type ToolStep = BareToolStep | { do: "ask"; tool: BareToolStep };
export type QuestionStep = { do: "question"; prompt: string; options: string[] };
export type SleepStep = { do: "sleep"; ms: number };
/** What can run beside others: tools, and the two other things that wait. */
export type BranchStep = ToolStep | QuestionStep | SleepStep;
