import type { AgentCommand } from "../protocol.ts";

/** One line of stdin as a command; a text says why it is none. */
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
