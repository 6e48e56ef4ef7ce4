/** The version of the conventions that the names below follow. */
export const SCHEMA_URL = "https://opentelemetry.io/schemas/1.45.0";

/** The names of OpenTelemetry's conventions for generative AI, and our own. A rename upstream is one edit here. */
export const NAMES = {
  operation: "gen_ai.operation.name",
  provider: "gen_ai.provider.name",
  conversation: "gen_ai.conversation.id",
  agentId: "gen_ai.agent.id",
  agentName: "gen_ai.agent.name",
  requestModel: "gen_ai.request.model",
  responseModel: "gen_ai.response.model",
  responseId: "gen_ai.response.id",
  finishReasons: "gen_ai.response.finish_reasons",
  firstChunk: "gen_ai.response.time_to_first_chunk",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  cacheReadTokens: "gen_ai.usage.cache_read.input_tokens",
  cacheWriteTokens: "gen_ai.usage.cache_creation.input_tokens",
  reasoningTokens: "gen_ai.usage.reasoning.output_tokens",
  toolName: "gen_ai.tool.name",
  toolType: "gen_ai.tool.type",
  toolCallId: "gen_ai.tool.call.id",
  errorType: "error.type",
  httpStatus: "http.response.status_code",
  turn: "sluice.turn.id",
  stopReason: "sluice.turn.stop_reason",
  wire: "sluice.model.wire",
  kind: "sluice.model.kind",
  attempt: "sluice.model.attempt",
  servedBy: "sluice.model.served_by",
  cost: "sluice.model.cost_usd",
  usageSource: "sluice.model.usage_source",
} as const;

/** The values of `gen_ai.operation.name`. */
export const OPERATIONS = { agent: "invoke_agent", chat: "chat", tool: "execute_tool" } as const;

/** OpenTelemetry's own names of model providers, where they differ from ours. */
const PROVIDERS: Readonly<Record<string, string>> = {
  google: "gcp.gemini",
  xai: "x_ai",
  mistral: "mistral_ai",
  bedrock: "aws.bedrock",
  vertex: "gcp.vertex_ai",
  azure: "azure.ai.openai",
  foundry: "azure.ai.inference",
};

export function toProvider(name: string): string {
  return PROVIDERS[name] ?? name;
}
