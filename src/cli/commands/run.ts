import type { Command } from "commander";
import { createId, SluiceError } from "../../contract/index.ts";
import type { Engine } from "../../sessions/port.ts";
import {
  addAgentOptions,
  type AgentOptions,
  readPrompt,
  splitCommand,
  toSpec,
} from "../run/agent-options.ts";
import { createErrorPrinter, TurnRun } from "../run/turn-run.ts";
import { dataDirOf } from "../source/data-folder.ts";
import { openEngine } from "../source/engine.ts";
import { toWhereWords } from "../source/locate.ts";
import { badUsage, EXIT } from "../terminal/failure.ts";
import { type CommandContext, onInterrupt } from "../terminal/screen.ts";
import { createPrint, FORMAT_NAMES, formatOf } from "../transcript/formats.ts";

const EXAMPLES = `
The prompt "-", or none while something is piped in, is read from standard input.
Ctrl-C interrupts the turn; the session stays. A second Ctrl-C kills the session.

Examples:
  sluice run "list the files here and say what they are"
  sluice run --agent claude --permission-mode acceptEdits "fix the failing test"
  sluice run --agent acp "what is in this folder?" -- my-agent --acp
  sluice run --session notes "remember this" && sluice run --session notes "what did I say?"
  sluice run --as universal '#script [{"say":"hello"}]' | jq -r .type
  echo "what is in this folder?" | sluice run --cwd /tmp

Exit codes: 0 the turn ended normally · 1 it failed · 2 bad usage · 130 it was interrupted
`;

export interface RunOptions extends AgentOptions {
  readonly as?: string;
  readonly json?: boolean;
  readonly session?: string;
  readonly data?: string;
}

export function addRun(program: Command, context: CommandContext): void {
  const command = program
    .command("run")
    .description("Run one turn here, without a server, and watch it live.")
    .argument("[prompt...]", "the prompt for the agent");
  addAgentOptions(command)
    .option("--as <format>", `print the events of a dialect instead, one JSON per line: ${FORMAT_NAMES}`)
    .option("--json", "the same as --as universal")
    .option("--session <id>", "continue this session, or create it")
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .addHelpText("after", EXAMPLES)
    .action(async (words: string[], options: RunOptions) => {
      context.exit(await run(words, options, context));
    });
}

async function run(words: string[], options: RunOptions, { screen, argv }: CommandContext): Promise<number> {
  const { promptWords, command } = splitCommand(words, { agent: options.agent, argv });
  const print = createPrint(formatOf(options), { ...screen.page, where: toWhereWords(options) });
  const prompt = await readPrompt(promptWords);
  const engine = await openEngine(dataDirOf(options.data), () => ({ logger: createErrorPrinter(screen) }));
  let turn: TurnRun | undefined;
  let isStopped = false;
  const unhook = onInterrupt(() => {
    isStopped = true;
    turn?.interrupt();
  });
  try {
    const session = await ensureSession(engine, options, command);
    if (isStopped) return EXIT.interrupted;
    turn = new TurnRun(engine, { session, screen, print });
    return await turn.run(prompt);
  } finally {
    unhook();
    // Ends the idle agent too, so that no process outlives the command.
    await engine.drain({ graceMs: 0 });
    await engine.log.close();
  }
}

async function ensureSession(
  engine: Engine,
  options: RunOptions,
  command: readonly string[],
): Promise<string> {
  const id = options.session ?? createId("session");
  const known = options.session === undefined ? undefined : await findSession(engine, id);
  if (!known) {
    await engine.create(id, toSpec(options, command));
    return id;
  }
  if (options.agent !== undefined && options.agent !== known.agent) {
    throw badUsage(
      `Session "${id}" belongs to the agent "${known.agent}", not to "${options.agent}". ` +
        "Leave --agent out to continue it, or choose another --session.",
    );
  }
  return id;
}

async function findSession(engine: Engine, id: string): Promise<{ agent: string } | undefined> {
  return engine.info(id).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  });
}
