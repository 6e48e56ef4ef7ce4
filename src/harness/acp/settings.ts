import { isRecord, type Params } from "../rpc.ts";
import type { Setting } from "./dialect.ts";
import type { Wishes } from "./state.ts";

/** How the permission modes of a session are called by agents that have them. */
const MODES: Readonly<Record<string, readonly string[]>> = {
  plan: ["plan", "read-only", "readonly", "architect"],
  acceptEdits: ["acceptEdits", "autoEdit", "auto_edit", "auto-edit"],
};

/** What a session asks for, by what its agent offers; a text where something must not be left out. */
export function offeredSettings(wishes: Wishes, offer: Params): readonly Setting[] | string {
  const session = String(offer["sessionId"]);
  const wanted = [modeSetting(wishes, offer), modelSetting(wishes, offer), effortSetting(wishes, offer)];
  const missing = wanted.find((setting) => typeof setting === "string");
  if (missing !== undefined) return missing;
  return wanted
    .filter((setting) => typeof setting === "object")
    .map(({ id, method, params }) => ({ id, method, params: { sessionId: session, ...params } }));
}

type Wanted = Setting | string | undefined;

function modeSetting({ agentMode, permissionMode }: Wishes, offer: Params): Wanted {
  const candidates = agentMode === undefined ? (MODES[permissionMode ?? ""] ?? []) : [agentMode];
  if (candidates.length === 0) return undefined;
  const modes = idsOf(offer["modes"], { list: "availableModes", id: "id" });
  const mode = candidates.find((name) => modes.includes(name));
  if (mode !== undefined) return { id: "mode", method: "session/set_mode", params: { modeId: mode } };
  const option = findOption(offer, "mode");
  const value = candidates.find((name) => option?.values.includes(name));
  if (option && value !== undefined) return toOption("mode", option.id, value);
  // Edits are accepted by the session's own policy where the agent has no mode for it; plans must stay plans.
  if (agentMode === undefined && permissionMode === "acceptEdits") return undefined;
  return `the agent has no mode "${candidates[0]}"; it has: ${listed(modes, option?.values)}`;
}

function modelSetting({ model }: Wishes, offer: Params): Wanted {
  if (model === undefined) return undefined;
  const models = idsOf(offer["models"], { list: "availableModels", id: "modelId" });
  if (models.includes(model)) return { id: "model", method: "session/set_model", params: { modelId: model } };
  const option = findOption(offer, "model");
  if (option?.values.includes(model)) return toOption("model", option.id, model);
  return `the agent has no model "${model}"; it has: ${listed(models, option?.values)}`;
}

function effortSetting({ variant }: Wishes, offer: Params): Wanted {
  if (variant === undefined) return undefined;
  const option = findOption(offer, "thought_level");
  if (option?.values.includes(variant)) return toOption("effort", option.id, variant);
  return `the agent has no variant "${variant}"; it has: ${listed([], option?.values)}`;
}

function toOption(id: string, configId: string, value: string): Setting {
  return { id, method: "session/set_config_option", params: { configId, value } };
}

function findOption(offer: Params, category: string): { id: string; values: string[] } | undefined {
  const options = Array.isArray(offer["configOptions"]) ? offer["configOptions"].filter(isRecord) : [];
  const found = options.find((option) => option["category"] === category);
  if (!found) return undefined;
  return { id: String(found["id"]), values: idsOf(found, { list: "options", id: "value" }) };
}

function idsOf(holder: unknown, { list, id }: { list: string; id: string }): string[] {
  const entries = isRecord(holder) ? holder[list] : undefined;
  if (!Array.isArray(entries)) return [];
  return entries.filter(isRecord).flatMap((entry) => (typeof entry[id] === "string" ? [entry[id]] : []));
}

function listed(...lists: (readonly string[] | undefined)[]): string {
  const all = [...new Set(lists.flatMap((list) => list ?? []))];
  return all.length === 0 ? "none" : all.join(", ");
}
