import { resolve } from "node:path";
import { McpServer, type SessionSpec, SluiceError } from "../contract/index.ts";
import type { SandboxProvider } from "../sandbox/index.ts";
import { type AgentConfig, toAgentSpec } from "./agent-config.ts";
import type { FileMap } from "./file-map.ts";
import { type ResultSchema, toResultInstructions } from "./result-schema.ts";
import type { Shelf } from "./storage.ts";

/**
 * An MCP server that the agent may use: a program, or an address.
 *
 * @example
 * const docs: McpServerConfig = { command: "npx", args: ["-y", "my-docs-mcp"], env: { LANG: "en" } };
 * const remote: McpServerConfig = { url: "https://example.com/mcp", headers: { "x-team": "a" } };
 * new Sluice().withMcpServers({ docs, remote });
 */
export interface McpServerConfig {
  type?: "stdio" | "http" | "sse";
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  url?: string;
  headers?: Record<string, string>;
}

/** What the builders have collected. */
export interface Settings {
  agent: AgentConfig;
  sandbox?: string | SandboxProvider;
  directory?: string;
  secrets: Record<string, string>;
  systemPrompt?: string;
  context: FileMap;
  files: FileMap;
  mcp: Record<string, McpServerConfig>;
  schema?: ResultSchema;
  shelf?: Shelf;
  server?: { url: string; token?: string | undefined };
  data?: string;
}

export function initialSettings(): Settings {
  return { agent: { type: "scripted" }, secrets: {}, context: {}, files: {}, mcp: {} };
}

/** The session that the settings ask for. `sandbox` is the provider's name where it runs. */
export function toSessionSpec(
  settings: Settings,
  { sandbox, isolated }: { sandbox: string | undefined; isolated: boolean },
): SessionSpec {
  const { systemPrompt, schema, shelf } = settings;
  const instructions = [
    systemPrompt,
    innerFolder(settings.directory) && `Work in the folder ${innerFolder(settings.directory)}.`,
    schema && toResultInstructions(schema),
  ].filter((text) => text !== undefined && text !== "");
  const { secrets, ...agent } = toAgentSpec(settings.agent, { isolated });
  const directory = hostFolder(settings.directory);
  const mcp = Object.entries(settings.mcp).map(([name, server]) => [name, toMcpServer(name, server)]);
  return {
    ...agent,
    secrets: { ...secrets, ...toReferences(settings.secrets) },
    ...(instructions.length === 0 ? {} : { instructions: instructions.join("\n\n") }),
    ...(mcp.length === 0 ? {} : { mcp: Object.fromEntries(mcp) as Record<string, McpServer> }),
    ...(sandbox === undefined ? {} : { sandbox }),
    ...(directory === undefined ? {} : { directory }),
    ...(shelf === undefined ? {} : { autoCheckpoint: true }),
    ...(shelf?.name === undefined ? {} : { shelf: shelf.name }),
    echo: true,
    lasting: true,
    metadata: { via: "sdk" },
  };
}

const INNER = /^(\/home\/user\/workspace|\/workspace)(\/|$)/;

/** A folder of the host that becomes the workspace. */
export function hostFolder(directory: string | undefined): string | undefined {
  return directory === undefined || INNER.test(directory) ? undefined : resolve(directory);
}

/** A folder below the workspace, by the name that it has in the sandbox. */
export function innerFolder(directory: string | undefined): string | undefined {
  if (directory === undefined || !INNER.test(directory)) return undefined;
  const below = directory.replace(INNER, "").replace(/\/+$/, "");
  return below === "" ? undefined : `/home/user/workspace/${below}`;
}

function toReferences(secrets: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).map(([name, value]) => [name, `value:${value}`]));
}

function toMcpServer(name: string, config: McpServerConfig): McpServer {
  const typed = config.url !== undefined && config.type === undefined ? { ...config, type: "http" } : config;
  const parsed = McpServer.safeParse(typed);
  if (parsed.success) return parsed.data;
  throw new SluiceError(
    "invalid_request",
    `withMcpServers: "${name}" is neither a program ({ command, args?, env? }) nor an address ({ type?, url, headers? }).`,
  );
}
