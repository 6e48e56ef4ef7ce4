import type { AgentPlanEntry, AgentUsage, FailureKind } from "./protocol.ts";

/** A parsed step of a script, with the defaults of its options. */
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

/** Tool steps that an `ask` step can contain. */
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
/** Steps that can run in parallel. */
export type BranchStep = ToolStep | QuestionStep | SleepStep;

/** Failures that only the scripted model can produce: the scripted agent has no model connection to break. */
export const MODEL_FAILURES = [
  "server_error",
  "unauthorized",
  "context_length",
  "cut",
  "garbage",
  "empty",
] as const;
export type ModelFailureKind = (typeof MODEL_FAILURES)[number];

export function isModelFailure(kind: string): kind is ModelFailureKind {
  return (MODEL_FAILURES as readonly string[]).includes(kind);
}
