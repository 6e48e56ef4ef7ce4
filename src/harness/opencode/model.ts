import type { SessionSpec } from "../../contract/index.ts";

export interface ModelRef {
  readonly providerID: string;
  readonly modelID: string;
}

/** The provider that stands for any server which speaks OpenAI's chat completions. */
export const COMPATIBLE = "openai-compatible";

const FAMILIES: readonly (readonly [RegExp, string])[] = [
  [/^claude/, "anthropic"],
  [/^(gpt|codex|o\d)/, "openai"],
  [/^gemini/, "google"],
  [/^grok/, "xai"],
];

/** The model that a session names, under the provider that serves it; none leaves it to the user's configuration. */
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

/** A base URL of the session's own decides where the model is, whatever its name. */
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
