import { type Command, InvalidArgumentError } from "commander";
import { createPrint, FORMAT_NAMES, formatOf, needsEarlierEvents } from "../transcript/formats.ts";
import { addWhereOptions, locateSource, toWhereWords, type WhereOptions } from "../source/locate.ts";
import type { CommandContext } from "../command-context.ts";
import { onInterrupt, type Screen } from "../terminal/screen.ts";
import { type Following, tailEvents, warnOfTrimming } from "../source/tail.ts";

const EXAMPLES = `
By default the log is printed, and followed for as long as a turn is running or queued.

Examples:
  sluice tail my-session
  sluice tail my-session --after 120 --as universal
  sluice tail my-session --follow
  sluice tail my-session --json --no-follow | head -1

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface TailOptions extends WhereOptions {
  readonly after?: number;
  readonly as?: string;
  readonly json?: boolean;
  readonly follow?: boolean;
}

export function addTail(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("tail")
    .description("Print the log of a session, and follow it live.")
    .argument("<session>", "the session's id")
    .option("--after <sequence>", "print only the events after this sequence", parseSequence)
    .option("--as <format>", `print the events of a dialect instead, one JSON per line: ${FORMAT_NAMES}`)
    .option("--json", "the same as --as universal")
    .option("-f, --follow", "wait for more, until the session ends or Ctrl-C")
    .option("--no-follow", "print the events so far and exit");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: TailOptions) => tail(session, options, screen));
}

async function tail(session: string, options: TailOptions, screen: Screen): Promise<void> {
  const print = createPrint(formatOf(options), { ...screen.page, where: toWhereWords(options) });
  const source = await locateSource(options);
  const stop = new AbortController();
  const unhook = onInterrupt(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, screen.closed]);
  try {
    const following = toFollowing(options.follow);
    const after = needsEarlierEvents(formatOf(options)) ? undefined : options.after;
    const reading = { after, following, signal, onTrimmed: warnOfTrimming };
    for await (const event of tailEvents(source, session, reading)) {
      const text = print(event);
      if (event.sequence > (options.after ?? 0)) await screen.write(text);
      if (signal.aborted) break;
    }
  } finally {
    unhook();
    await source.close();
  }
}

function toFollowing(follow: boolean | undefined): Following {
  if (follow === undefined) return "while-running";
  return follow ? "always" : "never";
}

function parseSequence(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("A sequence is a whole number from 0.");
}
