import type { SessionSpec } from "../../contract/index.ts";

/** The model that a session gets which names none, where its base URL is another one's. */
const DEFAULT_MODEL = "grok-4.6";

const CONTEXT_WINDOW = 200_000;

/** `~/.grok/config.toml` of the agent's own home. */
export function toConfig(
  spec: SessionSpec,
  { base, hasKey }: { base: string | undefined; hasKey: boolean },
): string {
  const retries = spec.retries === undefined ? [] : [`max_retries = ${spec.retries.tries - 1}`];
  const model = spec.model ?? DEFAULT_MODEL;
  return [
    "[cli]",
    "auto_update = false",
    "[features]",
    "telemetry = false",
    "auto_wake = false",
    "turn_summary = false",
    "session_recap = false",
    "title_refresh = false",
    "[marketplace]",
    "default_skills_installs_purged = true",
    "[models]",
    ...(base === undefined ? [] : [`default = ${quoted(model)}`]),
    ...retries,
    ...(base === undefined ? [] : providedModel(model, { base, hasKey, variant: spec.variant })),
    "",
  ].join("\n");
}

function providedModel(
  model: string,
  { base, hasKey, variant }: { base: string; hasKey: boolean; variant: string | undefined },
): string[] {
  return [
    `[model.${quoted(model)}]`,
    `model = ${quoted(model)}`,
    `base_url = ${quoted(base)}`,
    hasKey ? 'env_key = "XAI_API_KEY"' : 'api_key = "none"',
    'api_backend = "chat_completions"',
    `context_window = ${CONTEXT_WINDOW}`,
    ...(variant === undefined ? [] : [`reasoning_efforts = [${EFFORTS.map(toEffort).join(", ")}]`]),
  ];
}

const EFFORTS = ["low", "medium", "high", "xhigh"];

function toEffort(effort: string): string {
  return `{ id = ${quoted(effort)}, value = ${quoted(effort)}, label = ${quoted(effort)}, default = ${effort === "medium"} }`;
}

/** A JSON string is a basic string of TOML, but for characters that JSON leaves as they are. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}
