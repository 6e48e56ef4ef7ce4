import type { AcpReading, PrintedForm } from "../acp/dialect.ts";
import { endPrompt, failTurn } from "../acp/turns.ts";
import { toTextFailure } from "../acp/failure.ts";
import { endAllSpeech, readChunk, MAIN } from "../acp/messages.ts";
import { readTool } from "../acp/tools.ts";
import { toUsage } from "../acp/usage.ts";
import { isRecord } from "../fields.ts";
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
      reading.scribe.add({
        type: "session.started",
        native_session_id: String(line["session_id"]),
        data: {},
      });
      return undefined;
    case "message":
      return readMessage(reading, line);
    case "tool_use":
      return readToolUse(reading, line) ? undefined : "a malformed tool_use";
    case "tool_result":
      return readToolResult(reading, line) ? undefined : "a malformed tool_result";
    case "error":
      reading.scribe.add({ type: "error", data: { code: "agent", message: String(line["message"]) } });
      return undefined;
    default:
      readEnd(reading, line);
      return undefined;
  }
}

function readMessage(reading: AcpReading, { role, content }: Params): string | undefined {
  if (typeof content !== "string") return "a message without its content";
  if (role === "user") {
    reading.scribe.whole(undefined, {
      kind: "message",
      role: "user",
      content: [{ type: "text", text: content }],
    });
    return undefined;
  }
  readChunk(reading, { content: { type: "text", text: content } }, { kind: "text", origin: MAIN });
  return undefined;
}

function readToolUse(reading: AcpReading, { tool_id: id, tool_name: name, parameters }: Params): boolean {
  const content = isRecord(parameters) ? changeOf(parameters) : [];
  return readTool(
    reading,
    { toolCallId: id, name, rawInput: parameters, content },
    { origin: MAIN, isUpdate: false },
  );
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
  reportStats(reading, isRecord(stats) ? stats : {});
  if (status === "success") return endPrompt(reading, "prompt", { stopReason: "end_turn" });
  failTurn(reading, toTextFailure(isRecord(error) ? String(error["message"]) : "the agent failed"));
}

function reportStats(reading: AcpReading, { models }: Params): void {
  for (const [model, counts] of Object.entries(isRecord(models) ? models : {})) {
    const usage = isRecord(counts)
      ? toUsage({
          input_tokens: counts["input"],
          output_tokens: counts["output_tokens"],
          cache_read_tokens: counts["cached"],
        })
      : undefined;
    if (usage === undefined) continue;
    reading.scribe.startModel(model, { model });
    reading.scribe.endModel(model, { usage });
  }
}
