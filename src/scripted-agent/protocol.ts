/**
 * The scripted agent's protocol: one JSON object per line, `AgentLine` on stdout and `AgentCommand` on stdin.
 * `parent` is the id of the sub-agent's tool call.
 */
export type AgentLine =
  | { type: "session"; id: string; resumed: boolean; model?: string; variant?: string }
  | { type: "turn.started"; turn: number }
  | { type: "text.started" | "thinking.started"; id: string; parent?: string }
  | { type: "text.delta" | "thinking.delta"; id: string; text: string }
  /** `text` is the whole text: the concatenation of the deltas. */
  | { type: "text.ended" | "thinking.ended"; id: string; text: string }
  | { type: "image"; id: string; data: string; mime: string; parent?: string }
  /** `file`: the effect of the call on an existing file. */
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
  /** `builtin`: one of the agent's own tools, run by the application. */
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
  /** The failure ends the model request. The agent then waits for `retry`, `interrupt` or another `prompt`. */
  | { type: "model.failed"; id: string; kind: FailureKind; message: string; retryable: boolean }
  | { type: "error"; code: string; message: string; details?: unknown; parent?: string }
  | { type: "turn.ended"; turn: number; stop_reason: AgentStopReason; reason?: string; error?: AgentError };

/** `id` of an answer is the id of its `permission.asked`, `question.asked` or `tool.asked`. */
export type AgentCommand =
  /** `replay` is an earlier conversation that replaces the agent's memory. */
  | { type: "prompt"; id: string; text: string; attachments?: string[]; replay?: AgentReplay }
  | { type: "permission"; id: string; reply: "once" | "always" | "reject"; message?: string }
  | { type: "answer"; id: string; answers?: string[][]; rejected?: boolean; message?: string }
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

/** The command of a line on stdin; for any other line, the reason why it is no command. */
export function parseCommand(line: string): AgentCommand | string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return "not JSON";
  }
  if (typeof value !== "object" || value === null) return "not an object";
  const command = value as Record<string, unknown>;
  const texts = (...keys: string[]) => keys.every((key) => typeof command[key] === "string");
  switch (command["type"]) {
    case "prompt":
      if (!texts("text")) return "a prompt without text";
      if (command["attachments"] !== undefined && !isTexts(command["attachments"])) return "bad attachments";
      if (command["replay"] !== undefined && !isReplay(command["replay"])) return "a bad replay";
      break;
    case "permission":
      if (!texts("id") || !["once", "always", "reject"].includes(String(command["reply"]))) {
        return "a permission without id or reply";
      }
      break;
    case "answer":
      if (!texts("id")) return "an answer without id";
      if (command["answers"] !== undefined && !isAnswers(command["answers"])) return "bad answers";
      break;
    case "tool_result":
      if (!texts("id", "output")) return "a tool result without id or output";
      break;
    case "interrupt":
    case "retry":
      break;
    default:
      return "an unknown type";
  }
  return command as AgentCommand;
}

function isReplay(value: unknown): boolean {
  const turns = (value as { earlier_conversation?: unknown } | null)?.earlier_conversation;
  return Array.isArray(turns) && turns.every((turn) => typeof turn === "object" && turn !== null);
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((entry) => typeof entry === "string");
}

function isAnswers(value: unknown): boolean {
  return Array.isArray(value) && value.every(isTexts);
}
