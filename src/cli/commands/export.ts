import type { Command } from "commander";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import { readExportPage, toScriptText } from "../export-page.ts";
import type { Source } from "../source/port.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { createPrint, FORMAT_LIST } from "../transcript/formats.ts";
import { tailEvents } from "./tail.ts";

const EXAMPLES = `
With --html the output is one file: the page with the log inside. It opens in any browser without a server and a
network, and replays the session.

Examples:
  sluice export my-session > my-session.jsonl
  sluice export --html my-session > my-session.html
  sluice export my-session | jq -c 'select(.type == "turn.ended")'

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface ExportOptions extends WhereOptions {
  readonly as: string;
  readonly html?: boolean;
}

export function addExport(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("export")
    .description("Write the whole log of a session, one JSON event per line, extensions included.")
    .argument("<session>", "the session's id")
    .option("--html", "one file with the page and the log, to be opened in a browser")
    .option("--as <format>", `the dialect of the events: ${FORMAT_LIST}`, "universal");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: ExportOptions) => exportSession(session, options, screen));
}

async function exportSession(session: string, options: ExportOptions, screen: Screen): Promise<void> {
  const print = createPrint(options.as, screen.page);
  const source = await locateSource(options);
  try {
    if (options.html) return await exportPage(source, session, screen);
    const all = tailEvents(source, session, { following: "never", signal: screen.closed });
    for await (const event of all) {
      await screen.write(print(event));
      if (screen.closed.aborted) return;
    }
  } finally {
    await source.close();
  }
}

/** The page with the log inside. */
async function exportPage(source: Source, session: string, screen: Screen): Promise<void> {
  const [before, after] = readExportPage(session);
  await screen.write(before);
  const all = tailEvents(source, session, { following: "never", signal: screen.closed });
  for await (const { body } of all) {
    await screen.write(`${toScriptText(body)}\n`);
    if (screen.closed.aborted) return;
  }
  await screen.write(after);
}
