import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { z } from "zod";
import {
  type Budget,
  McpServer,
  type PerMinute,
  PermissionMode,
  type SessionSpec,
} from "../../contract/index.ts";
import { parseBudget, parsePerMinute } from "../terminal/amount.ts";
import { badUsage, CliFailure } from "../terminal/failure.ts";
import { type CassetteOptions, toCassette } from "./cassette-options.ts";

/** The options of an agent on the command line. */
export interface AgentOptions extends CassetteOptions {
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
  readonly budget?: Budget;
  readonly perMinute?: PerMinute;
  readonly fork?: string;
}

export function addAgentOptions(command: Command): Command {
  return command
    .option("--agent <agent>", "which agent (default: the session's own, or the only one with a key here)")
    .option(
      "--sandbox <provider>",
      "where it runs: bwrap (default), docker (if bwrap does not work) or local (no isolation)",
    )
    .option("--cwd <folder>", "the folder to work in (default: this one)")
    .option("--model <model>", "the model that the agent should use")
    .option("--variant <variant>", "the reasoning effort, in the agent's own words")
    .option("--mode <mode>", "the agent's own mode; sluice doctor lists them")
    .option("--permission-mode <mode>", "default, plan, acceptEdits or bypass")
    .option("--instructions <text>", "added to the agent's system prompt")
    .option("--mcp-config <file>", 'MCP servers, as JSON: {"mcpServers": {"name": {"command": …}}}')
    .option("--env <NAME=value>", "a variable of the agent's environment; may be repeated", collect)
    .option("--secret <NAME[=ref]>", "the same by reference: env:NAME (the default) or file:/path", collect)
    .option("--unattended", "refuse the agent's requests at once")
    .option(
      "--budget <amount>",
      "the most that the session may use: 2usd, 500k-tokens, 40-requests or 30min; may be repeated",
      parseBudget,
    )
    .option(
      "--per-minute <amount>",
      "the most that it may ask its model for in a minute: 20-requests, 100k-tokens; may be repeated",
      parsePerMinute,
    )
    .option("--fork <session>", "start as a copy of this session: its files and its agent's memory");
}

/**
 * The session's spec. `command` has the words after `--`, which start an `acp` agent. The folders of another machine's
 * server (`isHere`: false) are not known here.
 */
export function toSpec(
  options: AgentOptions,
  command: readonly string[] = [],
  { isHere = true }: { isHere?: boolean } = {},
): SessionSpec {
  const { model, variant, mode: agentMode, instructions, sandbox } = options;
  if (options.agent === "acp" && command.length === 0)
    throw new CliFailure(
      'An ACP agent needs the command that starts it, behind --: `sluice run --agent acp "…" -- my-agent --acp`',
    );
  const permissionMode = options.permissionMode === undefined ? undefined : toMode(options.permissionMode);
  const spec: { [K in keyof SessionSpec]: SessionSpec[K] | undefined } = {
    agent: options.agent ?? "scripted",
    directory: isHere && !isElsewhere(sandbox) ? directoryOf(options) : options.cwd,
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
    budget: options.budget,
    perMinute: options.perMinute,
    fork: options.fork === undefined ? undefined : { session: options.fork },
    cassette: toCassette(options, { isHere }),
  };
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)) as SessionSpec;
}

/** Separates the words of the prompt from the words after `--`, which start an `acp` agent. */
export function splitCommand(
  words: readonly string[],
  { agent, argv }: { agent: string | undefined; argv: readonly string[] },
): { promptWords: readonly string[]; command: readonly string[] } {
  const dashes = argv.indexOf("--");
  if (agent !== "acp" || dashes < 0) return { promptWords: words, command: [] };
  const command = argv.slice(dashes + 1);
  return { promptWords: words.slice(0, words.length - command.length), command };
}

/** A sandbox on another machine has a folder of its own there. */
function isElsewhere(sandbox: string | undefined): boolean {
  return sandbox?.includes("://") === true;
}

/** A fork works in a folder of its own and leaves the original's folder alone. */
function directoryOf({ fork, cwd }: AgentOptions): string | undefined {
  return fork !== undefined && cwd === undefined ? undefined : folderOf(cwd ?? ".");
}

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
  throw badUsage(`--permission-mode "${text}": choose one of ${PermissionMode.options.join(", ")}.`);
}

function toVariable(text: string): [string, string] {
  const at = text.indexOf("=");
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw badUsage(`--env "${text}": expected NAME=value.`);
}

function toReference(text: string): [string, string] {
  const [, name, reference] = /^([A-Za-z_]\w*)(?:=((?:env|file):.+))?$/.exec(text) ?? [];
  if (name !== undefined) return [name, reference ?? `env:${name}`];
  throw badUsage(
    `--secret "${text}": expected NAME, NAME=env:NAME or NAME=file:/path; never the value itself.`,
  );
}

function readMcp(path: string): NonNullable<SessionSpec["mcp"]> {
  const Config = z.object({ mcpServers: z.record(z.string(), McpServer) });
  try {
    return Config.parse(JSON.parse(readFileSync(path, "utf8"))).mcpServers;
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw badUsage(`--mcp-config ${path}: ${why}`);
  }
}

interface PromptOptions {
  readonly stdin?: NodeJS.ReadStream;
  /** A command with a prompt, for the message. */
  readonly example?: string;
}

/** The prompt. `-`, or no prompt while input is piped in, means standard input. */
export async function readPrompt(
  words: readonly string[],
  { stdin = process.stdin, example = 'sluice run "say hello"' }: PromptOptions = {},
): Promise<string> {
  const given = words.join(" ");
  const isPiped = !stdin.isTTY;
  const prompt = given === "-" || (given === "" && isPiped) ? await text(stdin) : given;
  if (prompt.trim() !== "") return prompt;
  throw badUsage(`There is no prompt. Give one, as in: \`${example}\`, or pipe it in.`);
}
