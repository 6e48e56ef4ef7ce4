import type { PrintedForm } from "../acp/dialect.ts";
import { endPrompt, failTurn } from "../acp/ending.ts";
import { toTextFailure } from "../acp/failure.ts";
import type { Hand } from "../acp/hand.ts";
import { endAllSpeech, hearChunk, MAIN } from "../acp/speech.ts";
import { seeTool } from "../acp/tools.ts";
import { toUsage } from "../acp/usage.ts";
import { isRecord, type Params } from "../rpc.ts";

const TYPES = new Set(["init", "message", "tool_use", "tool_result", "error", "result"]);

/** `gemini --output-format stream-json`: one turn, no asks, no thoughts. */
export const streamForm: PrintedForm = {
  isOf: ({ type }) => typeof type === "string" && TYPES.has(type),
  hear: hearLine,
};

function hearLine(hand: Hand, line: Params): string | undefined {
  switch (line["type"]) {
    case "init":
      hand.scribe.add({ type: "session.started", native_session_id: String(line["session_id"]), data: {} });
      return undefined;
    case "message":
      return hearMessage(hand, line);
    case "tool_use":
      return hearTool(hand, line) ? undefined : "a malformed tool_use";
    case "tool_result":
      return hearResult(hand, line) ? undefined : "a malformed tool_result";
    case "error":
      hand.scribe.add({ type: "error", data: { code: "agent", message: String(line["message"]) } });
      return undefined;
    default:
      hearEnd(hand, line);
      return undefined;
  }
}

function hearMessage(hand: Hand, { role, content }: Params): string | undefined {
  if (typeof content !== "string") return "a message without its content";
  if (role === "user") {
    hand.scribe.whole(undefined, {
      kind: "message",
      role: "user",
      content: [{ type: "text", text: content }],
    });
    return undefined;
  }
  hearChunk(hand, { content: { type: "text", text: content } }, { kind: "text", place: MAIN });
  return undefined;
}

function hearTool(hand: Hand, { tool_id: id, tool_name: name, parameters }: Params): boolean {
  const content = isRecord(parameters) ? changeOf(parameters) : [];
  return seeTool(
    hand,
    { toolCallId: id, name, rawInput: parameters, content },
    { place: MAIN, isUpdate: false },
  );
}

/** An edit as ACP would have shown it. */
function changeOf({ file_path: path, content, old_string: oldText, new_string: newText }: Params): Params[] {
  if (typeof path !== "string") return [];
  if (typeof content === "string") return [{ type: "diff", path, newText: content }];
  return typeof newText === "string" ? [{ type: "diff", path, oldText, newText }] : [];
}

function hearResult(hand: Hand, { tool_id: id, status, output }: Params): boolean {
  const ended = status === "error" ? "failed" : "completed";
  const rawOutput = typeof output === "string" ? output : "";
  return seeTool(hand, { toolCallId: id, status: ended, rawOutput }, { place: MAIN, isUpdate: true });
}

function hearEnd(hand: Hand, { status, stats, error }: Params): void {
  endAllSpeech(hand);
  tellStats(hand, isRecord(stats) ? stats : {});
  if (status === "success") return endPrompt(hand, "prompt", { stopReason: "end_turn" });
  failTurn(hand, toTextFailure(isRecord(error) ? String(error["message"]) : "the agent failed"));
}

function tellStats(hand: Hand, { models }: Params): void {
  for (const [model, counts] of Object.entries(isRecord(models) ? models : {})) {
    const usage = isRecord(counts)
      ? toUsage({
          input_tokens: counts["input"],
          output_tokens: counts["output_tokens"],
          cache_read_tokens: counts["cached"],
        })
      : undefined;
    if (usage === undefined) continue;
    hand.scribe.startModel(model, { model });
    hand.scribe.endModel(model, { usage });
  }
}
