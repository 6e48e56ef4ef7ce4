import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { readPrompt } from "../../run/agent-options.ts";
import { TurnRun } from "../../run/turn-run.ts";
import { addServerOptions, locateControls, toWhereWords, type WhereOptions } from "../../source/locate.ts";
import { EXIT } from "../../terminal/failure.ts";
import { onInterrupt } from "../../terminal/screen.ts";
import { createPrint, FORMAT_LIST, formatOf } from "../../transcript/formats.ts";

const EXAMPLES = `
The prompt "-", or none while something is piped in, is read from standard input. A message waits while another turn
runs. The transcript of its turn is printed to the end; --detach prints only the turn's id, once the message is durable.

At a terminal the agent's requests are asked here. Elsewhere they wait for another client: "sluice answer", "sluice
attach", or any other dialect. Ctrl-C interrupts the turn; a second Ctrl-C leaves it to the server.

Examples:
  sluice send my-session "now run the tests"
  git diff | sluice send my-session -
  sluice send my-session --detach "fix the failing test"
  sluice send my-session --as ndjson "what is in here?" | tail -1
  sluice send my-session --server http://127.0.0.1:7411 "go on"

Exit codes: 0 the turn ended normally · 1 it failed · 2 bad usage · 130 it was interrupted
`;

interface SendOptions extends WhereOptions {
  readonly as?: string;
  readonly json?: boolean;
  readonly detach?: boolean;
}

export function addSend(program: Command, context: CommandContext): void {
  const command = program
    .command("send")
    .description("Send a message to a session of a server, and watch its turn.")
    .argument("<session>", "the session's id")
    .argument("[prompt...]", "the message")
    .option("-d, --detach", "do not wait for the turn; print its id")
    .option("--wait", "wait for the turn (default)")
    .option("--as <format>", `print the events of a dialect instead, one JSON per line: ${FORMAT_LIST}`)
    .option("--json", "the same as --as universal");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, words: string[], options: SendOptions) => {
      context.exit(await send(session, words, options, context));
    });
}

async function send(
  session: string,
  words: readonly string[],
  options: SendOptions,
  { screen }: CommandContext,
): Promise<number> {
  const print = createPrint(formatOf(options), { ...screen.page, where: toWhereWords(options) });
  const prompt = await readPrompt(words, { example: `sluice send ${session} "say hello"` });
  const controls = await locateControls(options);
  if (options.detach) {
    const { turnId } = await controls.send(session, prompt);
    await screen.line(options.json ? JSON.stringify({ sessionId: session, turnId }) : turnId);
    return EXIT.ok;
  }
  const turn = new TurnRun(controls, { session, screen, print, unattended: "wait", second: "leave" });
  const unhook = onInterrupt(() => turn.interrupt());
  try {
    return await turn.run(prompt);
  } finally {
    unhook();
  }
}
