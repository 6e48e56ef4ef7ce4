import type { AcpDialect, AcpReading, ModelUsage, NamedTool } from "../acp/dialect.ts";
import { closeDenied, finishHeld } from "../acp/tools.ts";
import { toUsage } from "../acp/turns.ts";
import { toFields, toRecords } from "../fields.ts";
import { toMcpName } from "../launch/mcp.ts";
import type { Params } from "../rpc.ts";
import { streamForm } from "./forms.ts";
import { findCall, forgetCall, isRequest, readObservation } from "./observer.ts";

/** Gemini CLI's deviations: names in call ids, counts in `_meta`, unreported denials. */
export const geminiDialect: AcpDialect = {
  tool: nameGeminiTool,
  usage: (result, reading) => (isObserved(reading) ? [] : readQuota(result)),
  settled: forgetCall,
  // The command line sets model and mode.
  settings: () => [],
  extension: readObservation,
  forms: [streamForm],
  holds: isObserved,
  ignores: (reading, update) => update["sessionUpdate"] === "agent_thought_chunk" && isObserved(reading),
  before: (reading, message) => {
    // The CLI does not report the end of a denied call.
    if (reading.state.denied.length > 0) closeDenied(reading);
    if (reading.state.held && !isRequest(message)) finishHeld(reading);
  },
  // The notes about calls end with the turn; the one about the observer stays.
  ended: (reading) => {
    if (Object.keys(reading.state.aside).length > 0)
      reading.change({ aside: isObserved(reading) ? { witness: "yes" } : {} });
  },
};

/** Whether the observer reports on this process. Its first report leaves the note "witness" in the state. */
function isObserved({ state }: AcpReading): boolean {
  return state.aside["witness"] === "yes";
}

/** A call's id is `<tool>__<id>`. Its arguments come from the observer. */
function nameGeminiTool(fields: Params, reading: AcpReading): NamedTool | undefined {
  const { toolCallId, name: given } = fields;
  const { servers } = reading.state;
  if (typeof given === "string") return { name: toLogName(given, servers) };
  if (typeof toolCallId !== "string") return undefined;
  const end = toolCallId.lastIndexOf("__");
  const name = end > 0 ? toolCallId.slice(0, end) : toolCallId.replace(/-\d+.*$/, "");
  const input = findCall(reading, { name, id: toolCallId.slice(end + 2) })?.args;
  return { name: toLogName(name, servers), ...(input === undefined ? {} : { input }) };
}

/** The log's name of a tool. For an MCP tool Gemini has `mcp_<server>_<tool>`, the log `mcp__<server>__<tool>`. */
function toLogName(name: string, servers: readonly string[]): string {
  if (!name.startsWith("mcp_")) return name;
  const rest = name.slice("mcp_".length);
  return toMcpName(rest, servers, "_") ?? rest.replace(/^([^_]+)_(.+)$/, "mcp__$1__$2");
}

function readQuota({ _meta: meta }: Params): ModelUsage[] {
  const models = toRecords(toFields(toFields(meta)["quota"])["model_usage"]);
  return models.flatMap(({ model, token_count: count }) => {
    const { input_tokens, output_tokens } = toFields(count);
    const usage = toUsage({ input_tokens, output_tokens });
    return usage === undefined ? [] : [{ model: String(model), usage }];
  });
}
