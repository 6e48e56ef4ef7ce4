import { own } from "../../contract/ownKeys.ts";
import type { McpServer, SessionSpec } from "../../contract/index.ts";

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
    // Without a bundled ripgrep it would fetch one.
    tools: { useRipgrep: false, shell: { enableInteractiveShell: false } },
    ...(spec.variant === undefined ? {} : { modelConfigs: { overrides: [toOverride(spec, spec.variant)] } }),
  };
}

/** Variables that MCP servers inherit; without a word it keeps from them whatever looks like a secret. */
function toAllowed({ mcp }: SessionSpec): object {
  const allowed = Object.values(mcp ?? {}).flatMap((server) =>
    "inherit" in server ? (server.inherit ?? []) : [],
  );
  return allowed.length === 0 ? {} : { environmentVariableRedaction: { allowed } };
}

/** ACP cannot say how long a call may take, so a server with such a limit is named here. */
export function isInSettings(server: McpServer): boolean {
  return !("url" in server) && server.timeoutMs !== undefined;
}

function toServers({ mcp }: SessionSpec): object {
  const servers = Object.entries(mcp ?? {}).flatMap(([name, server]) => {
    if ("url" in server || server.timeoutMs === undefined) return [];
    const { command, args = [], env = {}, timeoutMs: timeout } = server;
    return [[name, { command, args, env, timeout }] as const];
  });
  return servers.length === 0 ? {} : { mcpServers: Object.fromEntries(servers) };
}

const BUDGETS: Readonly<Record<string, number>> = { low: 1024, medium: 8192, high: 24_576 };

/** How hard it thinks: a level since Gemini 3, a number of tokens before. */
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
