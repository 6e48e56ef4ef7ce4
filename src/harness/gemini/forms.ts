import type { AcpReading, PrintedForm } from "../acp/dialect.ts";
import { toTextFailure } from "../acp/failure.ts";
import { endAllSpeech, MAIN, readChunk } from "../acp/messages.ts";
import { readTool } from "../acp/tools.ts";
import { endPrompt, failTurn, toUsage } from "../acp/turns.ts";
import { isRecord, toFields } from "../fields.ts";
import type { Params } from "../rpc.ts";

const TYPES = new Set(["init", "message", "tool_use", "tool_result", "error", "result"]);

/** `gemini --output-format stream-json`: one turn without requests and thoughts. */
export const streamForm: PrintedForm = {
  matches: ({ type }) => typeof type === "string" && TYPES.has(type),
  read: readLine,
};

function readLine(reading: AcpReading, line: Params): string | undefined {
  switch (line["type"]) {
    case "init":
      return void reading.scribe.session(String(line["session_id"]));
    case "message":
      return readMessage(reading, line);
    case "tool_use":
      return readToolUse(reading, line) ? undefined : "a malformed tool_use";
    case "tool_result":
      return readToolResult(reading, line) ? undefined : "a malformed tool_result";
    case "error":
      return void reading.scribe.add({
        type: "error",
        data: { code: "agent", message: String(line["message"]) },
      });
    default:
      return void readEnd(reading, line);
  }
}

function readMessage(reading: AcpReading, { role, content }: Params): string | undefined {
  if (typeof content !== "string") return "a message without its content";
  if (role === "user") {
    const parts = [{ type: "text" as const, text: content }];
    return void reading.scribe.whole(undefined, { kind: "message", role: "user", content: parts });
  }
  readChunk(reading, { content: { type: "text", text: content } }, { kind: "text", origin: MAIN });
  return undefined;
}

function readToolUse(reading: AcpReading, { tool_id: id, tool_name: name, parameters }: Params): boolean {
  const fields = { toolCallId: id, name, rawInput: parameters, content: changeOf(toFields(parameters)) };
  return readTool(reading, fields, { origin: MAIN, isUpdate: false });
}

/** An edit in ACP's form. */
function changeOf({ file_path: path, content, old_string: oldText, new_string: newText }: Params): Params[] {
  if (typeof path !== "string") return [];
  if (typeof content === "string") return [{ type: "diff", path, newText: content }];
  return typeof newText === "string" ? [{ type: "diff", path, oldText, newText }] : [];
}

function readToolResult(reading: AcpReading, { tool_id: id, status, output }: Params): boolean {
  const ended = status === "error" ? "failed" : "completed";
  const rawOutput = typeof output === "string" ? output : "";
  return readTool(reading, { toolCallId: id, status: ended, rawOutput }, { origin: MAIN, isUpdate: true });
}

function readEnd(reading: AcpReading, { status, stats, error }: Params): void {
  endAllSpeech(reading);
  reportStats(reading, toFields(stats));
  if (status === "success") return endPrompt(reading, "prompt", { stopReason: "end_turn" });
  failTurn(reading, toTextFailure(isRecord(error) ? String(error["message"]) : "the agent failed"));
}

function reportStats(reading: AcpReading, { models }: Params): void {
  for (const [model, value] of Object.entries(toFields(models))) {
    const { input, output_tokens, cached } = toFields(value);
    const usage = toUsage({ input_tokens: input, output_tokens, cache_read_tokens: cached });
    if (usage === undefined) continue;
    reading.scribe.startModel(model, { model });
    reading.scribe.endModel(model, { usage });
  }
}
