/**
 * The scripted agent's own words: one JSON object per line, `AgentLine` on stdout and `AgentCommand` on stdin.
 * `parent` is the id of the sub-agent's tool call under which a thing happened.
 */
export type AgentLine =
  | { type: "session"; id: string; resumed: boolean; model?: string; variant?: string }
  | { type: "turn.started"; turn: number }
  | { type: "text.started" | "thinking.started"; id: string; parent?: string }
  | { type: "text.delta" | "thinking.delta"; id: string; text: string }
  /** `text` is the whole text: the concatenation of the deltas. */
  | { type: "text.ended" | "thinking.ended"; id: string; text: string }
  | { type: "image"; id: string; data: string; mime: string; parent?: string }
  /** `file`: what the call will do to a file that is there already. */
  | { type: "tool.called"; id: string; name: string; input: unknown; file?: AgentFile; parent?: string }
  | { type: "tool.started"; id: string }
  | { type: "tool.output"; id: string; text: string }
  | {
      type: "tool.ended";
      id: string;
      output: string;
      failed: boolean;
      exit_code?: number;
      interrupted?: boolean;
      file?: AgentFile;
    }
  | { type: "permission.asked"; id: string; call: string; name: string; input: unknown; parent?: string }
  | { type: "question.asked"; id: string; prompt: string; options: string[]; parent?: string }
  /** `builtin`: one of the agent's own tools, which the application runs in its place. */
  | {
      type: "tool.asked";
      id: string;
      call: string;
      name: string;
      input: unknown;
      builtin?: true;
      parent?: string;
    }
  | { type: "plan"; id: string; entries: AgentPlanEntry[]; parent?: string }
  | { type: "compacted"; id: string; trigger: string; summary: string; parent?: string }
  | { type: "model.started"; id: string; model?: string; parent?: string }
  | { type: "model.ended"; id: string; usage: AgentUsage; estimated: boolean }
  /** The request has ended too; the agent stands still until `retry`, `interrupt` or another `prompt`. */
  | { type: "model.failed"; id: string; kind: FailureKind; message: string; retryable: boolean }
  | { type: "error"; code: string; message: string; details?: unknown; parent?: string }
  | { type: "turn.ended"; turn: number; stop_reason: AgentStopReason; reason?: string; error?: AgentError };

/** `id` names what is answered: the id of `permission.asked`, `question.asked` or `tool.asked`. */
export type AgentCommand =
  /** `replay` is what was said before this session began, in place of what it remembers. */
  | { type: "prompt"; id: string; text: string; attachments?: string[]; replay?: AgentReplay }
  | { type: "permission"; id: string; reply: "once" | "always" | "reject"; message?: string }
  | { type: "answer"; id: string; answers?: string[][]; rejected?: boolean }
  | { type: "tool_result"; id: string; output: string; failed?: boolean }
  | { type: "interrupt" }
  | { type: "retry" };

export type FailureKind = "overloaded" | "rate_limited" | "bad_gateway" | "terminal";
export type AgentStopReason = "end_turn" | "refusal" | "interrupted" | "failed";

export interface AgentFile {
  path: string;
  action: "read" | "write" | "patch";
  diff?: string;
}

export interface AgentPlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority: "high" | "medium" | "low";
}

export interface AgentUsage {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  cost_usd?: number;
}

export interface AgentError {
  code: string;
  message: string;
}

export interface AgentReplay {
  earlier_conversation: { user?: string; assistant?: string }[];
}
