import { own } from "../../contract/own-keys.ts";
import type { McpServer, SessionSpec } from "../../contract/index.ts";
import { toMcpServers } from "../launch/mcp.ts";

/** The most attempts that its settings allow. */
const MOST_ATTEMPTS = 10;

/** `~/.gemini/settings.json` of the agent's own home: nothing is updated, reported or downloaded. */
export function toSettings(spec: SessionSpec, auth: string): Record<string, unknown> {
  const tries = spec.retries?.tries;
  return {
    general: {
      enableAutoUpdate: false,
      enableAutoUpdateNotification: false,
      ...(tries === undefined ? {} : { maxAttempts: Math.min(tries, MOST_ATTEMPTS) }),
    },
    privacy: { usageStatisticsEnabled: false },
    telemetry: { enabled: false },
    security: { auth: { selectedType: auth }, ...toAllowed(spec) },
    ...toServers(spec),
    // The CLI would download ripgrep.
    tools: { useRipgrep: false, shell: { enableInteractiveShell: false } },
    ...(spec.variant === undefined ? {} : { modelConfigs: { overrides: [toOverride(spec, spec.variant)] } }),
  };
}

/** Variables that MCP servers inherit. By default the CLI hides those that look like secrets. */
function toAllowed({ mcp }: SessionSpec): object {
  const allowed = Object.values(mcp ?? {}).flatMap((server) =>
    "inherit" in server ? (server.inherit ?? []) : [],
  );
  return allowed.length === 0 ? {} : { environmentVariableRedaction: { allowed } };
}

/** ACP has no field for a time limit, so the settings name a server with one. */
export function isInSettings(server: McpServer): boolean {
  return !("url" in server) && server.timeoutMs !== undefined;
}

function toServers({ mcp }: SessionSpec): object {
  const mcpServers = toMcpServers(mcp, {
    remote: () => undefined,
    local: ({ command, args = [], env = {}, timeoutMs: timeout }) =>
      timeout === undefined ? undefined : { command, args, env, timeout },
  });
  return Object.keys(mcpServers).length === 0 ? {} : { mcpServers };
}

const BUDGETS: Readonly<Record<string, number>> = { low: 1024, medium: 8192, high: 24_576 };

/** The thinking effort: a level since Gemini 3, a number of tokens before. */
function toOverride({ model }: SessionSpec, variant: string): Record<string, unknown> {
  const isOld = model !== undefined && /gemini-[12]/.test(model);
  const thinking = isOld
    ? { thinkingBudget: own(BUDGETS, variant) ?? BUDGETS["medium"] }
    : { thinkingLevel: variant.toUpperCase() };
  return {
    match: model === undefined ? {} : { model },
    modelConfig: { generateContentConfig: { thinkingConfig: { includeThoughts: true, ...thinking } } },
  };
}
