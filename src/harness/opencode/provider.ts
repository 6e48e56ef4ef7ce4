import type { SessionSpec } from "../../contract/index.ts";
import { asFields, hostOf, isText, parseLogin } from "../launch/provider.ts";
import { own } from "../../contract/own-keys.ts";
import type { Lead, LentLogin } from "../port.ts";

/** Variables with a key, and the provider of each. */
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

/** OpenCode's own provider, whose free models need no key. */
const DEFAULT_PROVIDER = "opencode";

function isKnownProvider(name: string): boolean {
  return HOSTS.has(name);
}

/** The session's provider: its model's, else that of its first key, else that of the login. */
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

/** The keys of a model's provider; without a model, all keys in their order. */
export function keysFor(spec: SessionSpec): string[] {
  const model = chooseModel(spec);
  return Object.entries(KEYS).flatMap(([name, provider]) =>
    model === undefined || provider === keyProvider(model.providerID) ? [name] : [],
  );
}

/** The provider whose key is used. A server that is compatible with OpenAI uses OpenAI's key. */
function keyProvider(provider: string): string {
  return provider === COMPATIBLE ? "openai" : provider;
}

/** The provider's hosts. An unknown provider has none here: the session's network has to name its host. */
export function providerHosts(
  provider: string,
  spec: SessionSpec,
  modelUrl: string | undefined,
): readonly string[] {
  if (modelUrl !== undefined) return hostOf(modelUrl);
  const model = chooseModel(spec);
  const url = model && baseUrl(model, spec.env ?? {});
  if (url !== undefined) return hostOf(url);
  const host = HOSTS.get(provider);
  return host === undefined ? [] : [host];
}

/** The base URLs of the AI SDK's providers, and the header of each one's key. */
const UPSTREAMS: Readonly<Record<string, readonly [url: string, header?: string]>> = {
  anthropic: ["https://api.anthropic.com/v1", "x-api-key"],
  openai: ["https://api.openai.com/v1"],
  google: ["https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key"],
  openrouter: ["https://openrouter.ai/api/v1"],
  xai: ["https://api.x.ai/v1"],
  groq: ["https://api.groq.com/openai/v1"],
  mistral: ["https://api.mistral.ai/v1"],
  deepseek: ["https://api.deepseek.com/v1"],
};

/**
 * The provider of the key, or the session's own base URL. OpenCode's own provider has several APIs: its requests do not
 * go through the gateway.
 */
export function lead(spec: SessionSpec, variable: string): Lead | undefined {
  const model = chooseModel(spec);
  const url = model && baseUrl(model, spec.env ?? {});
  const provider = model?.providerID ?? own(KEYS, variable);
  const name = provider === undefined ? undefined : keyProvider(provider);
  const known = name === undefined ? undefined : own(UPSTREAMS, name);
  if (name === undefined || known === undefined || own(KEYS, variable) !== name) return undefined;
  const [upstream, header] = known;
  const auth = header === undefined ? ({ header: "authorization", scheme: "Bearer" } as const) : { header };
  return { route: { id: name, provider: name, upstream: url ?? upstream, auth } };
}

/** The providers of the configuration: a key, or a provider for the session's own base URL. */
export function toProviders(
  { env = {} }: SessionSpec,
  model: ModelRef | undefined,
  { keys, provider, modelUrl }: ProviderOptions,
): Record<string, unknown> {
  const sessionUrl = model && baseUrl(model, env);
  const url = sessionUrl === undefined ? undefined : (modelUrl ?? sessionUrl);
  if (model === undefined || url === undefined) {
    const found = Object.entries(KEYS).find(
      ([name, owner]) => owner === provider && keys[name] !== undefined,
    );
    const address = modelUrl === undefined ? {} : { baseURL: modelUrl };
    const options = { ...(found === undefined ? {} : { apiKey: keys[found[0]] }), ...address };
    return Object.keys(options).length === 0 ? {} : { provider: { [provider]: { options } } };
  }
  const { providerID, modelID } = model;
  const keyName = providerID === COMPATIBLE ? "OPENAI_API_KEY" : "ANTHROPIC_API_KEY";
  const provided: Provider = {
    ...(providerID === COMPATIBLE ? { npm: "@ai-sdk/openai-compatible", name: "OpenAI-compatible" } : {}),
    options: { baseURL: url, apiKey: env[keyName] ?? keys[keyName] ?? "none" },
    models: { [modelID]: toModel(modelID) },
  };
  return {
    provider: { [providerID]: provided },
    enabled_providers: [providerID],
    small_model: `${providerID}/${modelID}`,
  };
}

interface ProviderOptions {
  readonly keys: Readonly<Record<string, string>>;
  readonly provider: string;
  /** The gateway's address of the provider. */
  readonly modelUrl: string | undefined;
}

interface Provider {
  npm?: string;
  name?: string;
  options: Record<string, unknown>;
  models?: Record<string, unknown>;
}

/** A base URL of the AI SDK ends with the version. */
function baseUrl({ providerID }: ModelRef, env: Readonly<Record<string, string>>): string | undefined {
  const url = providerID === COMPATIBLE ? env["OPENAI_BASE_URL"] : env["ANTHROPIC_BASE_URL"];
  if (url === undefined) return undefined;
  const bare = url.replace(/\/+$/, "");
  return /\/v\d+\w*$/.test(bare) ? bare : `${bare}/v1`;
}

/** A model without a catalogue entry counts as capable of everything. */
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

export interface ModelRef {
  readonly providerID: string;
  readonly modelID: string;
}

/** The agents of OpenCode that can be a session's main agent. */
export const AGENTS = ["build", "plan"] as const;

/** The agent of a session; undefined leaves it to the user's configuration. */
export function agentOf({ agentMode, permissionMode }: SessionSpec): string | undefined {
  return agentMode ?? (permissionMode === "plan" ? "plan" : undefined);
}

/** The provider of any server with OpenAI's chat completions. */
const COMPATIBLE = "openai-compatible";

const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude/, "anthropic"],
  [/^(gpt|codex|o\d)/, "openai"],
  [/^gemini/, "google"],
  [/^grok/, "xai"],
];

/** The session's model with its provider; undefined leaves it to the user's configuration. */
export function chooseModel({ model, env = {} }: SessionSpec): ModelRef | undefined {
  const override = overrideOf(model, env);
  if (override !== undefined) return override;
  if (model === undefined) return undefined;
  const [providerID = "", ...rest] = model.split("/");
  if (rest.length > 0) return { providerID, modelID: rest.join("/") };
  const family = familyOf(model);
  return family === undefined ? undefined : { providerID: family, modelID: model };
}

function familyOf(model: string): string | undefined {
  return FAMILIES.find(([pattern]) => pattern.test(model))?.[1];
}

/** The model at a base URL of the session, which decides on the provider. */
function overrideOf(model: string | undefined, env: Readonly<Record<string, string>>): ModelRef | undefined {
  const hasOpenai = env["OPENAI_BASE_URL"] !== undefined;
  const hasAnthropic = env["ANTHROPIC_BASE_URL"] !== undefined;
  if (!hasOpenai && !hasAnthropic) return undefined;
  const bare = model?.replace(/^(anthropic|openai|openai-compatible)\//, "");
  const isClaude = bare === undefined ? !hasOpenai : familyOf(bare) === "anthropic";
  if (hasAnthropic && (isClaude || !hasOpenai)) {
    return { providerID: "anthropic", modelID: bare ?? "claude-sonnet-4-5" };
  }
  return { providerID: COMPATIBLE, modelID: bare ?? "gpt-5" };
}

/**
 * `.local/share/opencode/auth.json`: logins by provider. The session gets the login of its model's provider, or the
 * first known one if its spec names no provider. Logins by OAuth need OpenCode's own plugins, which are off here, so
 * only keys work.
 */
export function lendLogin(content: string, spec: SessionSpec): LentLogin | undefined {
  const logins = parseLogin(content) ?? {};
  const wanted = chooseModel(spec)?.providerID;
  const provider = wanted === COMPATIBLE ? "openai" : (wanted ?? Object.keys(logins).find(isKnownProvider));
  const login =
    provider !== undefined && Object.hasOwn(logins, provider) ? asFields(logins[provider]) : undefined;
  if (provider === undefined || login === undefined) return undefined;
  if (login["type"] !== "api" || !isText(login["key"])) {
    return {
      refusal: `OpenCode's login for ${provider} works only with a refresh token; set a key of that provider instead`,
    };
  }
  return { content: JSON.stringify({ [provider]: { type: "api", key: login["key"] } }) };
}

export function loginProvider(login: string | undefined): string | undefined {
  return login === undefined ? undefined : Object.keys(parseLogin(login) ?? {})[0];
}
