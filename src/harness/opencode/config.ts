import type { McpServer, SessionSpec } from "../../contract/index.ts";
import { agentOf, AGENTS } from "./agent.ts";
import { chooseModel } from "./model.ts";
import { toPermissions } from "./permissions.ts";
import { toProviders } from "./providers.ts";

export interface ConfigOptions {
  readonly keys: Readonly<Record<string, string>>;
  readonly provider: string;
  /** Where the session's instructions lie. */
  readonly instructions?: string;
}

/** OpenCode's configuration for one session; the user's own, in the agent's home, is beneath it. */
export function toConfig(
  spec: SessionSpec,
  { keys, provider, instructions }: ConfigOptions,
): Record<string, unknown> {
  const model = chooseModel(spec);
  const name = model === undefined ? spec.model : `${model.providerID}/${model.modelID}`;
  const agent = agentOf(spec);
  const servers = Object.entries(spec.mcp ?? {});
  return {
    $schema: "https://opencode.ai/config.json",
    autoupdate: false,
    share: "disabled",
    permission: toPermissions(spec.permissionMode),
    ...(name === undefined ? {} : { model: name }),
    ...(agent === undefined ? {} : { default_agent: agent }),
    ...toProviders(spec, model, { keys, provider }),
    ...toAgents(spec, agent),
    ...(servers.length === 0
      ? {}
      : { mcp: Object.fromEntries(servers.map(([name, server]) => [name, toMcp(server)])) }),
    ...(instructions === undefined ? {} : { instructions: [instructions] }),
  };
}

/** How hard it thinks and what it is told belong to its agents: the leading one, or both where none is chosen. */
function toAgents({ variant, systemPrompt }: SessionSpec, agent: string | undefined): { agent?: unknown } {
  if (variant === undefined && systemPrompt === undefined) return {};
  const settings = {
    ...(variant === undefined ? {} : { variant }),
    ...(systemPrompt === undefined ? {} : { prompt: systemPrompt }),
  };
  const names = agent === undefined ? AGENTS : [agent];
  return { agent: Object.fromEntries(names.map((name) => [name, settings])) };
}

function toMcp(server: McpServer): unknown {
  if ("url" in server) {
    const { url, headers } = server;
    // Nobody is there to log in by a browser.
    return {
      type: "remote",
      url,
      enabled: true,
      oauth: false,
      ...(headers === undefined ? {} : { headers }),
    };
  }
  const { command, args = [], inherit = [], timeoutMs: timeout } = server;
  const env = { ...server.env, ...Object.fromEntries(inherit.map((name) => [name, `{env:${name}}`])) };
  return {
    type: "local",
    command: [command, ...args],
    enabled: true,
    ...(Object.keys(env).length === 0 ? {} : { environment: env }),
    ...(timeout === undefined ? {} : { timeout }),
  };
}
