import type { Command } from "commander";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { createPrint, FORMAT_NAMES } from "../transcript/formats.ts";
import { tailEvents } from "./tail.ts";

const EXAMPLES = `
Examples:
  sluice export my-session > my-session.jsonl
  sluice export my-session | jq -c 'select(.type == "turn.ended")'

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

export function addExport(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("export")
    .description("Write the whole log of a session, one JSON event per line, extensions included.")
    .argument("<session>", "the session's id")
    .option("--as <format>", `the dialect of the events: ${FORMAT_NAMES}`, "universal");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: WhereOptions & { as: string }) =>
      exportSession(session, options, screen),
    );
}

async function exportSession(
  session: string,
  options: WhereOptions & { as: string },
  screen: Screen,
): Promise<void> {
  const print = createPrint(options.as, screen.page);
  const source = await locateSource(options);
  try {
    const all = tailEvents(source, session, { following: "never", signal: screen.closed });
    for await (const event of all) {
      await screen.write(print(event));
      if (screen.closed.aborted) return;
    }
  } finally {
    await source.close();
  }
}
