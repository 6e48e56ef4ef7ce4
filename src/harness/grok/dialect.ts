import type { AcpDialect, NamedTool } from "../acp/dialect.ts";
import type { Hand } from "../acp/hand.ts";
import { toMcpName } from "../acp/mcp.ts";
import type { Wishes } from "../acp/state.ts";
import { isRecord, type Params } from "../rpc.ts";
import { answerGrok, hearGrokAnswer } from "./answers.ts";
import { awaitsServers, hearExtension } from "./extension.ts";
import { messagesForm } from "./messages-form.ts";
import { watchStream } from "./stream.ts";
import { streamForm } from "./stream-form.ts";
import { noteSpawn } from "./subagent.ts";

/** What Grok Build adds to ACP: its own requests, usage per model request, argument deltas, retries, sub-agents. */
export const grokDialect: AcpDialect = {
  tool: nameGrokTool,
  // Each model request was counted when it ended.
  usage: () => [],
  settings: ({ permissionMode, agentMode }: Wishes, offer: Params) => {
    const mode = agentMode ?? (permissionMode === "plan" ? "plan" : "default");
    if (mode === "default") return [];
    return [
      { id: "mode", method: "session/set_mode", params: { sessionId: offer["sessionId"], modeId: mode } },
    ];
  },
  before: watchStream,
  awaits: awaitsServers,
  settled: noteSpawn,
  extension: hearExtension,
  answer: answerGrok,
  hear: hearGrokAnswer,
  steer: {
    method: "_x.ai/interject",
    params: (sessionId, text) => ({ sessionId, text }),
    text: ({ text }) => String(text),
  },
  fork: {
    method: "_x.ai/session/fork",
    params: ({ resume, cwd }) => ({ sourceSessionId: resume, sourceCwd: cwd, newCwd: cwd }),
    session: ({ newSessionId }) => (typeof newSessionId === "string" ? newSessionId : undefined),
  },
  forms: [streamForm, messagesForm],
  hasChildren: true,
  tellsPlans: true,
  endDetails: ({ stopReason, _meta: meta }) => {
    const why = isRecord(meta) ? meta["cancellationCategory"] : undefined;
    return stopReason === "cancelled" && typeof why === "string" ? { cancelled: why } : undefined;
  },
};

/** The name stands in `_meta`; MCP tools are called through `use_tool`. */
function nameGrokTool(fields: Params, { state }: Hand): NamedTool | undefined {
  const { _meta: meta, rawInput, toolName, rawOutput } = fields;
  const own = isRecord(meta) && isRecord(meta["x.ai/tool"]) ? meta["x.ai/tool"]["name"] : toolName;
  if (isRecord(rawOutput) && rawOutput["type"] === "MCP" && own === undefined) return { name: "use_tool" };
  if (typeof own !== "string") return undefined;
  const target = isRecord(rawInput) && own === "use_tool" ? rawInput["tool_name"] : undefined;
  if (!isRecord(rawInput) || typeof target !== "string") return { name: own };
  const name = toMcpName(target, state.servers, "__") ?? `mcp__${target}`;
  return { name, input: rawInput["tool_input"] };
}
