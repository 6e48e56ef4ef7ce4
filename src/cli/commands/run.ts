import type { Command } from "commander";
import { addAgentOptions, readPrompt, splitCommand } from "../run/agent-options.ts";
import { addCassetteOptions } from "../run/cassette-options.ts";
import { type ChoiceOptions, ensureSession, openControls } from "../run/session-choice.ts";
import { EXIT } from "../terminal/failure.ts";
import { createPrint, FORMAT_LIST, formatOf } from "../transcript/formats.ts";
import { type CommandContext, onInterrupt } from "../terminal/screen.ts";
import { TurnRun } from "../run/turn-run.ts";
import { toWhereWords } from "../source/locate.ts";

const EXAMPLES = `
The prompt "-", or none while something is piped in, is read from standard input.
Ctrl-C interrupts the turn; the session stays. A second Ctrl-C kills the session.

Without --agent, a new session gets the agent of the config file, else the only one that is installed here with a key
or login, else "scripted", which has no model. With --server, with SLUICE_URL or with "server" in the config file, the
turn runs on that server.

Examples:
  sluice run "list the files here and say what they are"
  sluice run --agent claude --permission-mode acceptEdits "fix the failing test"
  sluice run --agent acp "what is in this folder?" -- my-agent --acp
  sluice run --session notes "remember this" && sluice run --session notes "what did I say?"
  sluice run -c "and now the tests"
  sluice run --server http://127.0.0.1:7411 "what is running here?"
  sluice run --as universal '#script [{"say":"hello"}]' | jq -r .type
  echo "what is in this folder?" | sluice run --cwd /tmp
  sluice run --agent claude --record fix.cassette.jsonl "fix the failing test"
  sluice run --agent claude --replay fix.cassette.jsonl "fix the failing test"

Exit codes: 0 the turn ended normally · 1 it failed · 2 bad usage · 130 it was interrupted
`;

export interface RunOptions extends ChoiceOptions {
  readonly as?: string;
  readonly json?: boolean;
}

export function addRun(program: Command, context: CommandContext): void {
  const command = program
    .command("run")
    .description("Run one turn here, without a server, and watch it live.")
    .argument("[prompt...]", "the prompt for the agent");
  addCassetteOptions(addAgentOptions(command))
    .option("--as <format>", `print the events of a dialect instead, one JSON per line: ${FORMAT_LIST}`)
    .option("--json", "the same as --as universal")
    .option("--session <id>", "continue this session, or create it")
    .option("-c, --continue", "continue the last session")
    .option("--server <url>", "run it on this server (default: $SLUICE_URL, then the config file, else here)")
    .option("--token <token>", "the server's token (default: $SLUICE_TOKEN, then the data folder's own)")
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
  const controls = await openControls(options, screen);
  let turn: TurnRun | undefined;
  let isStopped = false;
  const unhook = onInterrupt(() => {
    isStopped = true;
    turn?.interrupt();
  });
  try {
    const session = await ensureSession(controls, options, { screen, command });
    if (isStopped) return EXIT.interrupted;
    turn = new TurnRun(controls, { session, screen, print });
    return await turn.run(prompt);
  } finally {
    unhook();
    // Ends the idle agent too, so that no process outlives the command.
    await controls.close();
  }
}
