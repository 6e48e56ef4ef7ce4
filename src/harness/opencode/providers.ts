import type { SessionSpec } from "../../contract/index.ts";
import { COMPATIBLE, type ModelRef } from "./model.ts";

/** Where OpenCode finds a key, and the name under which its provider knows it. */
export const KEYS = {
  ANTHROPIC_API_KEY: "anthropic",
  OPENAI_API_KEY: "openai",
  OPENCODE_API_KEY: "opencode",
  GEMINI_API_KEY: "google",
  GOOGLE_GENERATIVE_AI_API_KEY: "google",
  OPENROUTER_API_KEY: "openrouter",
  XAI_API_KEY: "xai",
  GROQ_API_KEY: "groq",
  MISTRAL_API_KEY: "mistral",
  DEEPSEEK_API_KEY: "deepseek",
} as const;

const HOSTS: Readonly<Record<string, readonly string[]>> = {
  anthropic: ["api.anthropic.com", "console.anthropic.com"],
  openai: ["api.openai.com", "auth.openai.com", "chatgpt.com"],
  opencode: ["opencode.ai"],
  google: ["generativelanguage.googleapis.com"],
  openrouter: ["openrouter.ai"],
  xai: ["api.x.ai"],
  groq: ["api.groq.com"],
  mistral: ["api.mistral.ai"],
  deepseek: ["api.deepseek.com"],
  "github-copilot": ["api.githubcopilot.com", "github.com", "api.github.com"],
};

/** The hosts of a model's provider, or of all that we know where the user's configuration chooses. */
export function providerHosts(model: ModelRef | undefined): readonly string[] {
  return (model && HOSTS[model.providerID]) ?? Object.values(HOSTS).flat();
}

/** Keys by a file that only the agent reads; a base URL of the session's own as a provider of its own. */
export function toProviders(
  { env = {} }: SessionSpec,
  model: ModelRef | undefined,
  keys: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const providers: Record<string, Provider> = {};
  for (const [name, provider] of Object.entries(KEYS)) {
    const apiKey = keys[name];
    if (apiKey !== undefined) providers[provider] = { options: { apiKey } };
  }
  const url = model && baseUrl(model, env);
  if (model === undefined || url === undefined)
    return Object.keys(providers).length === 0 ? {} : { provider: providers };
  const { providerID, modelID } = model;
  const keyName = providerID === COMPATIBLE ? "OPENAI_API_KEY" : "ANTHROPIC_API_KEY";
  const own: Provider = {
    ...(providerID === COMPATIBLE ? { npm: "@ai-sdk/openai-compatible", name: "OpenAI-compatible" } : {}),
    options: { baseURL: url, apiKey: env[keyName] ?? keys[keyName] ?? "none" },
    models: { [modelID]: toModel(modelID) },
  };
  return {
    provider: { [providerID]: own },
    enabled_providers: [providerID],
    small_model: `${providerID}/${modelID}`,
  };
}

interface Provider {
  npm?: string;
  name?: string;
  options: Record<string, unknown>;
  models?: Record<string, unknown>;
}

/** What the AI SDK takes for a base URL ends with the version. */
function baseUrl({ providerID }: ModelRef, env: Readonly<Record<string, string>>): string | undefined {
  const url = providerID === COMPATIBLE ? env["OPENAI_BASE_URL"] : env["ANTHROPIC_BASE_URL"];
  if (url === undefined) return undefined;
  const bare = url.replace(/\/+$/, "");
  return /\/v\d+\w*$/.test(bare) ? bare : `${bare}/v1`;
}

/** A model that no catalogue describes is taken to be able to do everything. */
function toModel(name: string): unknown {
  return {
    name,
    reasoning: true,
    attachment: true,
    tool_call: true,
    modalities: { input: ["text", "image"], output: ["text"] },
    limit: { context: 200_000, output: 32_000 },
  };
}
