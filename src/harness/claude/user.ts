import { commonToolName } from "../../contract/index.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { ruleOf } from "../toolRule.ts";
import { own, without } from "../transcript.ts";
import { type Fields, parentOf, toFields, toList, toText } from "./fields.ts";
import { changePlan } from "./plan.ts";
import type { Reader, Reading } from "./reading.ts";
import type { ClaudeState } from "./state.ts";
import { toOutcome, toOutput } from "./outcome.ts";

/** What comes back to the model: tool results, and the CLI's own words to it. */
export const readUser: Reader = (state, line, reading) => {
  const { content } = toFields(line["message"]) as { content?: unknown };
  if (typeof content === "string") return readWords(state, { content, line }, reading);
  return toList(content).reduce<ClaudeState>(
    (next, block) =>
      block["type"] === "tool_result" ? readToolResult(next, { block, line }, reading) : next,
    readWords(state, { content: wordsOf(content), line }, reading),
  );
};

function readWords(
  state: ClaudeState,
  { content, line }: { content: string; line: Fields },
  { scribe }: Reading,
): ClaudeState {
  const { compaction, ...rest } = state;
  if (compaction && line["isSynthetic"] === true) {
    scribe.compacted({ ...compaction, ...(content === "" ? {} : { summary: content }) });
    return rest;
  }
  const [, output] = LOCAL_COMMAND.exec(content) ?? [];
  if (output !== undefined && output.trim() !== "") scribe.status("command", { detail: output.trim() });
  return state;
}

/** What a slash command printed. */
const LOCAL_COMMAND = /^<local-command-std(?:out|err)>([^]*)<\/local-command-std(?:out|err)>$/;

function wordsOf(content: unknown): string {
  return toList(content)
    .map((block) => (block["type"] === "text" ? toText(block["text"]) : ""))
    .join("");
}

function readToolResult(
  state: ClaudeState,
  { block, line }: { block: Fields; line: Fields },
  { scribe }: Reading,
): ClaudeState {
  const id = toText(block["tool_use_id"]);
  const call = own(scribe.transcript.calls, id);
  if (!call) return state;
  const result = line["tool_use_result"];
  const agent = backgroundAgent(call.name, { block, result });
  if (agent !== undefined) {
    scribe.startResult(id);
    return { ...state, background: { ...state.background, [id]: agent } };
  }
  const kept = own(state.inputs, id);
  const failed = block["is_error"] === true;
  if (failed && isUnknown(state, call.name, block)) {
    // It asks nobody for a tool that it was not given: that it was denied is said in its place.
    const metadata: PermissionMetadata = { call_id: id, name: call.name, input: {}, kind: "other" };
    const data = { permission_id: `perm_${id}`, action: call.name, status: "requested" as const, metadata };
    scribe.add({ type: "permission.requested", data }, { parent: parentOf(line) });
  }
  scribe.result(id, toOutcome(block, { name: call.name, result, path: kept?.path }));
  const next = { ...state, inputs: without(state.inputs, id) };
  const tasks = failed ? undefined : changePlan(state.tasks, { name: call.name, input: kept?.value, result });
  if (!tasks) return next;
  scribe.plan(Object.values(tasks));
  return { ...next, tasks };
}

/** Whether the session's rules have taken the tool away. */
function isUnknown({ rules }: ClaudeState, name: string, block: Fields): boolean {
  if (ruleOf({ rules }, commonToolName(name)) !== "deny") return false;
  return /No such tool available|has been denied/.test(toOutput(block["content"]));
}

/** A sub-agent's call that comes back at once, the sub-agent going on by itself: the CLI's name for it. */
function backgroundAgent(
  name: string,
  { block, result }: { block: Fields; result: unknown },
): string | undefined {
  if (name !== "Agent" && name !== "Task") return undefined;
  const { status, isAsync, agentId } = toFields(result);
  if (status === "async_launched" || isAsync === true) return toText(agentId);
  const [, id] =
    /^Async agent launched successfully[^]*?agentId: (\w+)/.exec(toOutput(block["content"])) ?? [];
  return id;
}
