import type { AcpDialect, ModelUsage, NamedTool } from "../acp/dialect.ts";
import type { Hand } from "../acp/hand.ts";
import { toMcpName } from "../acp/mcp.ts";
import { closeDenied, finishHeld } from "../acp/tools.ts";
import { toUsage } from "../acp/usage.ts";
import { isRecord, type Params } from "../rpc.ts";
import { streamForm } from "./stream-form.ts";
import { hearTestimony, isRequest } from "./testimony.ts";
import { findCall, forgetCall } from "./witnessed.ts";

/** What Gemini CLI does in its own way: names in call ids, counts in `_meta`, denials without a word. */
export const geminiDialect: AcpDialect = {
  tool: nameGeminiTool,
  usage: (result, hand) => (hasWitness(hand) ? [] : readQuota(result)),
  settled: forgetCall,
  // Model and mode are chosen on its command line.
  settings: () => [],
  extension: hearTestimony,
  forms: [streamForm],
  holds: hasWitness,
  ignores: (hand, update) => update["sessionUpdate"] === "agent_thought_chunk" && hasWitness(hand),
  before: (hand, message) => {
    // A denied call is never heard of again.
    if (hand.state.denied.length > 0) closeDenied(hand);
    if (hand.state.held && !isRequest(message)) finishHeld(hand);
  },
  ended: (hand) => {
    if (Object.keys(hand.state.aside).length > 0)
      hand.note({ aside: hasWitness(hand) ? { witness: "yes" } : {} });
  },
};

function hasWitness({ state }: Hand): boolean {
  return state.aside["witness"] === "yes";
}

/** A call's id is `<tool>__<id>`; its arguments only the witness knows. */
function nameGeminiTool(fields: Params, hand: Hand): NamedTool | undefined {
  const { toolCallId, name: given } = fields;
  const { servers } = hand.state;
  if (typeof given === "string") return { name: toLogName(given, servers) };
  if (typeof toolCallId !== "string") return undefined;
  const end = toolCallId.lastIndexOf("__");
  const name = end > 0 ? toolCallId.slice(0, end) : toolCallId.replace(/-\d+.*$/, "");
  const input = findCall(hand, { name, id: toolCallId.slice(end + 2) })?.args;
  return { name: toLogName(name, servers), ...(input === undefined ? {} : { input }) };
}

/** `mcp_<server>_<tool>` as every agent's log has it. */
function toLogName(name: string, servers: readonly string[]): string {
  if (!name.startsWith("mcp_")) return name;
  const rest = name.slice("mcp_".length);
  return toMcpName(rest, servers, "_") ?? rest.replace(/^([^_]+)_(.+)$/, "mcp__$1__$2");
}

function readQuota({ _meta: meta }: Params): ModelUsage[] {
  const quota = isRecord(meta) && isRecord(meta["quota"]) ? meta["quota"] : {};
  const models = Array.isArray(quota["model_usage"]) ? quota["model_usage"].filter(isRecord) : [];
  return models.flatMap(({ model, token_count: counts }) => {
    const usage = isRecord(counts)
      ? toUsage({ input_tokens: counts["input_tokens"], output_tokens: counts["output_tokens"] })
      : undefined;
    return usage === undefined ? [] : [{ model: String(model), usage }];
  });
}
