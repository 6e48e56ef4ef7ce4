import { resolve } from "node:path";
import { readFileSync, statSync } from "node:fs";
import type { Command } from "commander";
import { z } from "zod";
import { McpServer, PermissionMode, type SessionSpec } from "../contract/index.ts";
import { CliFailure, EXIT } from "./failure.ts";

/** What a command line may say of the agent that it starts. */
export interface AgentOptions {
  readonly agent?: string;
  readonly sandbox?: string;
  readonly cwd?: string;
  readonly model?: string;
  readonly variant?: string;
  readonly mode?: string;
  readonly permissionMode?: string;
  readonly instructions?: string;
  readonly mcpConfig?: string;
  readonly env?: string[];
  readonly secret?: string[];
  readonly unattended?: boolean;
  readonly fork?: string;
}

export function addAgentOptions(command: Command): Command {
  return command
    .option("--agent <agent>", 'which agent (default: "scripted", or the session\'s own)')
    .option(
      "--sandbox <provider>",
      "where it runs: bwrap (default), docker (if bwrap does not work) or local (no isolation)",
    )
    .option("--cwd <folder>", "the folder to work in (default: this one)")
    .option("--model <model>", "the model that the agent should use")
    .option("--variant <variant>", "how hard it thinks, in the agent's own words")
    .option("--mode <mode>", "the agent's own mode; sluice doctor lists them")
    .option("--permission-mode <mode>", "default, plan, acceptEdits or bypass")
    .option("--instructions <text>", "added to the agent's system prompt")
    .option("--mcp-config <file>", 'MCP servers, as JSON: {"mcpServers": {"name": {"command": …}}}')
    .option("--env <NAME=value>", "a variable of the agent's environment; may be repeated", collect)
    .option("--secret <NAME[=ref]>", "the same by reference: env:NAME (the default) or file:/path", collect)
    .option("--unattended", "refuse at once what the agent asks")
    .option("--fork <session>", "begin as a copy of this session: its files and its agent's memory");
}

/** The session that the options ask for; `command` is what stood behind `--`, for an agent that is only a protocol. */
export function toSpec(options: AgentOptions, command: readonly string[] = []): SessionSpec {
  const { model, variant, mode: agentMode, instructions, sandbox } = options;
  if (options.agent === "acp" && command.length === 0)
    throw new CliFailure(
      'An ACP agent needs the command that starts it, behind --: sluice run --agent acp "…" -- my-agent --acp',
    );
  const permissionMode = options.permissionMode === undefined ? undefined : toMode(options.permissionMode);
  const spec: { [K in keyof SessionSpec]: SessionSpec[K] | undefined } = {
    agent: options.agent ?? "scripted",
    // A copy has a folder of its own: the original's must not change under it.
    directory:
      options.fork !== undefined && options.cwd === undefined ? undefined : folderOf(options.cwd ?? "."),
    sandbox,
    model,
    variant,
    agentMode,
    instructions,
    permissionMode,
    command: command.length === 0 ? undefined : [...command],
    mcp: options.mcpConfig === undefined ? undefined : readMcp(options.mcpConfig),
    env: options.env && Object.fromEntries(options.env.map(toVariable)),
    secrets: options.secret && Object.fromEntries(options.secret.map(toReference)),
    unattended: options.unattended,
    fork: options.fork === undefined ? undefined : { session: options.fork },
  };
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)) as SessionSpec;
}

/** The words of the prompt, and what stands behind `--` where the agent is a command. */
export function splitCommand(
  words: readonly string[],
  { agent, argv }: { agent: string | undefined; argv: readonly string[] },
): { said: readonly string[]; command: readonly string[] } {
  const dashes = argv.indexOf("--");
  if (agent !== "acp" || dashes < 0) return { said: words, command: [] };
  const command = argv.slice(dashes + 1);
  return { said: words.slice(0, words.length - command.length), command };
}

/** Said here in the words of a command line; to a client the server says its own. */
function folderOf(path: string): string {
  const folder = resolve(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return folder;
  throw new CliFailure(`There is no directory ${folder}. Make it, or name another one with --cwd.`);
}

function collect(value: string, before: string[] = []): string[] {
  return [...before, value];
}

function toMode(text: string): PermissionMode {
  const mode = PermissionMode.safeParse(text);
  if (mode.success) return mode.data;
  throw usage(`--permission-mode "${text}": choose one of ${PermissionMode.options.join(", ")}.`);
}

function toVariable(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw usage(`--env "${text}": expected NAME=value.`);
}

function toReference(text: string): [string, string] {
  const [, name, reference] = /^([A-Za-z_]\w*)(?:=((?:env|file):.+))?$/.exec(text) ?? [];
  if (name !== undefined) return [name, reference ?? `env:${name}`];
  throw usage(`--secret "${text}": expected NAME, NAME=env:NAME or NAME=file:/path; never the value itself.`);
}

function readMcp(path: string): NonNullable<SessionSpec["mcp"]> {
  const Config = z.object({ mcpServers: z.record(z.string(), McpServer) });
  try {
    return Config.parse(JSON.parse(readFileSync(path, "utf8"))).mcpServers;
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw usage(`--mcp-config ${path}: ${why}`);
  }
}

function usage(message: string): CliFailure {
  return new CliFailure(message, EXIT.usage);
}
