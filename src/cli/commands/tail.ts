import { type Command, InvalidArgumentError } from "commander";
import type { SessionInfo } from "../../contract/index.ts";
import type { StoredEventText } from "../../dialects/port.ts";
import { addWhereOptions, locateSource, toWhereWords, type WhereOptions } from "../source/locate.ts";
import type { Source } from "../source/port.ts";
import { type CommandContext, onInterrupt, type Screen } from "../terminal/screen.ts";
import { createPrint, FORMAT_LIST, formatOf, needsEarlierEvents } from "../transcript/formats.ts";

const EXAMPLES = `
By default the log is printed, and followed for as long as a turn is running or queued.

Examples:
  sluice tail my-session
  sluice tail my-session --after 120 --as universal
  sluice tail my-session --follow
  sluice tail my-session --json --no-follow | head -1

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface TailCommandOptions extends WhereOptions {
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
    .option("--as <format>", `print the events of a dialect instead, one JSON per line: ${FORMAT_LIST}`)
    .option("--json", "the same as --as universal")
    .option("-f, --follow", "wait for more, until the session ends or Ctrl-C")
    .option("--no-follow", "print the events so far and exit");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: TailCommandOptions) => tail(session, options, screen));
}

async function tail(session: string, options: TailCommandOptions, screen: Screen): Promise<void> {
  const print = createPrint(formatOf(options), { ...screen.page, where: toWhereWords(options) });
  const source = await locateSource(options);
  const stop = new AbortController();
  const unhook = onInterrupt(() => stop.abort());
  const signal = AbortSignal.any([stop.signal, screen.closed]);
  try {
    const following = toFollowing(options.follow);
    const after = needsEarlierEvents(formatOf(options)) ? undefined : options.after;
    for await (const event of tailEvents(source, session, { after, following, signal })) {
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

export type Following = "always" | "while-running" | "never";

export interface TailOptions {
  /** The sequence before the first event (default: all events that are kept). */
  readonly after?: number | undefined;
  readonly following: Following;
  readonly signal: AbortSignal;
  /** Called with the oldest sequence of a trimmed log (default: a warning). */
  readonly onTrimmed?: (oldest: number) => void;
}

/** The events of a session after the sequence `after`. */
export async function* tailEvents(
  source: Source,
  session: string,
  options: TailOptions,
): AsyncGenerator<StoredEventText, void> {
  const { following, signal, onTrimmed = warnOfTrimming } = options;
  let info = await source.info(session);
  if (options.after === undefined && info.oldest !== undefined) onTrimmed(info.oldest);
  const after = options.after ?? (info.oldest ?? 1) - 1;
  if (following === "never" || (following === "while-running" && isAtRest(info))) {
    yield* source.read(session, { after });
    return;
  }
  let sawTurnEnd = false;
  for await (const event of source.follow(session, { after, signal })) {
    yield event;
    if (event.type === "turn.started") sawTurnEnd = false;
    if (event.type === "turn.ended") sawTurnEnd = true;
    // A session can be at rest only at the head of its log, so the status is asked for only there.
    if (following === "always" || !sawTurnEnd || event.sequence < info.eventCount) continue;
    info = await source.info(session);
    if (isAtRest(info) && event.sequence >= info.eventCount) return;
  }
}

function isAtRest(info: SessionInfo): boolean {
  return info.ended || (info.status === "idle" && info.queued === 0);
}

function warnOfTrimming(oldest: number): void {
  process.stderr.write(`The events before ${oldest} were trimmed away.\n`);
}
