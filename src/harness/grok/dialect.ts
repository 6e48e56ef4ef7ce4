import type { AcpDialect, AcpReading, NamedTool } from "../acp/dialect.ts";
import type { Wishes } from "../acp/state.ts";
import { toMcpName } from "../launch/mcp.ts";
import { isRecord } from "../fields.ts";
import type { Params } from "../rpc.ts";
import { answerGrok, fromGrokAnswer, awaitsServers, readExtension } from "./asks.ts";
import { messagesForm, streamForm } from "./forms.ts";
import { watchStream, noteSpawn } from "./notifications.ts";

/** Grok Build's additions to ACP: its own requests, usage per model request, argument deltas, retries, sub-agents. */
export const grokDialect: AcpDialect = {
  tool: nameGrokTool,
  // Each model request was reported at its end.
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
  extension: readExtension,
  answer: answerGrok,
  fromAnswer: fromGrokAnswer,
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
  reportsPlans: true,
  endDetails: ({ stopReason, _meta: meta }) => {
    const why = isRecord(meta) ? meta["cancellationCategory"] : undefined;
    return stopReason === "cancelled" && typeof why === "string" ? { cancelled: why } : undefined;
  },
};

/** The name is in `_meta`; MCP tools are called through `use_tool`. */
function nameGrokTool(fields: Params, { state }: AcpReading): NamedTool | undefined {
  const { _meta: meta, rawInput, toolName, rawOutput } = fields;
  const own = isRecord(meta) && isRecord(meta["x.ai/tool"]) ? meta["x.ai/tool"]["name"] : toolName;
  if (isRecord(rawOutput) && rawOutput["type"] === "MCP" && own === undefined) return { name: "use_tool" };
  if (typeof own !== "string") return undefined;
  const target = isRecord(rawInput) && own === "use_tool" ? rawInput["tool_name"] : undefined;
  if (!isRecord(rawInput) || typeof target !== "string") return { name: own };
  const name = toMcpName(target, state.servers, "__") ?? `mcp__${target}`;
  return { name, input: rawInput["tool_input"] };
}
