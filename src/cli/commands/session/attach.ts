import type { Command } from "commander";
import { findLastTurn, watchSession } from "../../chat/watch.ts";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, locateControls, toWhereWords, type WhereOptions } from "../../source/locate.ts";
import { CliFailure } from "../../terminal/failure.ts";
import { onInterrupt, type Screen } from "../../terminal/screen.ts";
import { createPrint } from "../../transcript/formats.ts";

const EXAMPLES = `
The transcript begins with the running or last turn, and goes on until the session ends. At a terminal the agent's
requests are asked here, and the first answer of any client wins. Ctrl-C leaves; the session and its turn go on.

Examples:
  sluice attach my-session
  sluice attach my-session --server http://127.0.0.1:7411

Exit codes: 0 left, or the session has ended meanwhile · 1 failed, such as an unknown session · 2 bad usage
`;

export function addAttach(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("attach")
    .description("Watch a session of a server live, and answer its agent.")
    .argument("<session>", "the session's id");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: WhereOptions) => attach(session, options, screen));
}

async function attach(session: string, options: WhereOptions, screen: Screen): Promise<void> {
  const controls = await locateControls(options);
  const { ended } = await controls.info(session);
  if (ended)
    throw new CliFailure(`The session ${session} has ended. \`sluice tail ${session}\` shows its log.`);
  const stop = new AbortController();
  const leave = (): void => stop.abort();
  const unhook = onInterrupt(leave);
  const signal = AbortSignal.any([stop.signal, screen.closed]);
  const print = createPrint(undefined, { ...screen.page, where: toWhereWords(options) });
  try {
    const after = await findLastTurn(controls, session);
    const watched = { session, screen, print, interrupt: leave, hint: "Ctrl-C leaves it" };
    await watchSession(controls, watched, { after, signal });
    if (stop.signal.aborted && screen.isLive) screen.note(`\nLeft ${session}, which goes on.`);
  } finally {
    unhook();
  }
}
