import type { SessionSpec } from "../../contract/index.ts";
import { toTomlString } from "../launch/toml.ts";

/** The default model, where the session sets a base URL. */
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
    ...(base === undefined ? [] : [`default = ${toTomlString(model)}`]),
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
    `[model.${toTomlString(model)}]`,
    `model = ${toTomlString(model)}`,
    `base_url = ${toTomlString(base)}`,
    hasKey ? 'env_key = "XAI_API_KEY"' : 'api_key = "none"',
    'api_backend = "chat_completions"',
    `context_window = ${CONTEXT_WINDOW}`,
    ...(variant === undefined ? [] : [`reasoning_efforts = [${EFFORTS.map(toEffort).join(", ")}]`]),
  ];
}

const EFFORTS = ["low", "medium", "high", "xhigh"];

function toEffort(effort: string): string {
  return `{ id = ${toTomlString(effort)}, value = ${toTomlString(effort)}, label = ${toTomlString(effort)}, default = ${effort === "medium"} }`;
}
