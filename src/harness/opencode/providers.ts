import type { SessionSpec } from "../../contract/index.ts";
import { hostOf } from "../hosts.ts";
import { chooseModel, COMPATIBLE, type ModelRef } from "./model.ts";

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

const HOSTS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "api.anthropic.com"],
  ["openai", "api.openai.com"],
  ["opencode", "opencode.ai"],
  ["google", "generativelanguage.googleapis.com"],
  ["openrouter", "openrouter.ai"],
  ["xai", "api.x.ai"],
  ["groq", "api.groq.com"],
  ["mistral", "api.mistral.ai"],
  ["deepseek", "api.deepseek.com"],
]);

/** OpenCode's own, whose free models need no key. */
const DEFAULT_PROVIDER = "opencode";

export function isKnownProvider(name: string): boolean {
  return HOSTS.has(name);
}

/** Who serves the session: its model's provider, else that of the first key that it has, else that of the login. */
export function providerOf(
  spec: SessionSpec,
  { keys, login }: { keys: Readonly<Record<string, string>>; login: string | undefined },
): string {
  const model = chooseModel(spec);
  if (model !== undefined) return model.providerID;
  const has = (name: string): boolean =>
    (keys[name] ?? spec.env?.[name] ?? spec.secrets?.[name]) !== undefined;
  const found = Object.entries(KEYS).find(([name]) => has(name));
  return found?.[1] ?? login ?? DEFAULT_PROVIDER;
}

/** The keys of a model's provider; of all, in their order, where no model says which. */
export function keysFor(spec: SessionSpec): string[] {
  const model = chooseModel(spec);
  return Object.entries(KEYS).flatMap(([name, provider]) =>
    model === undefined || provider === keyProvider(model.providerID) ? [name] : [],
  );
}

/** Whose key a provider takes: a server that speaks as OpenAI does takes one of OpenAI's name. */
function keyProvider(provider: string): string {
  return provider === COMPATIBLE ? "openai" : provider;
}

/** Where the provider is asked; none for one that we do not know: the session's network has to name its host. */
export function providerHosts(provider: string, spec: SessionSpec): readonly string[] {
  const model = chooseModel(spec);
  const url = model && baseUrl(model, spec.env ?? {});
  if (url !== undefined) return hostOf(url);
  const host = HOSTS.get(provider);
  return host === undefined ? [] : [host];
}

/** Keys by a file that only the agent reads; a base URL of the session's own as a provider of its own. */
export function toProviders(
  { env = {} }: SessionSpec,
  model: ModelRef | undefined,
  { keys, provider }: { keys: Readonly<Record<string, string>>; provider: string },
): Record<string, unknown> {
  const url = model && baseUrl(model, env);
  if (model === undefined || url === undefined) {
    const found = Object.entries(KEYS).find(
      ([name, owner]) => owner === provider && keys[name] !== undefined,
    );
    return found === undefined ? {} : { provider: { [provider]: { options: { apiKey: keys[found[0]] } } } };
  }
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
