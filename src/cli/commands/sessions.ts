import { type Command, InvalidArgumentError, Option } from "commander";
import { type SessionInfo, StatusFilter } from "../../contract/index.ts";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
Examples:
  sluice sessions
  sluice sessions --status waiting
  sluice sessions --agent claude --limit 10
  sluice sessions --json | jq -r .sessionId
  sluice sessions --server http://127.0.0.1:7411

Exit codes: 0 done · 1 failed · 2 bad usage
`;

export function addSessions(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("sessions")
    .description("List the sessions, newest first.")
    .addOption(
      new Option("--status <status>", "only sessions with this status").choices(StatusFilter.options),
    )
    .option("--agent <agent>", "only sessions of this agent")
    .option("--limit <n>", "at most this many", parseLimit)
    .option("--json", "one JSON object per line");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((options: SessionsOptions) => listSessions(options, screen));
}

interface SessionsOptions extends WhereOptions {
  readonly status?: StatusFilter;
  readonly agent?: string;
  readonly limit?: number;
  readonly json?: boolean;
}

async function listSessions(options: SessionsOptions, screen: Screen): Promise<void> {
  const { status, agent, limit = Infinity } = options;
  const source = await locateSource(options);
  try {
    let count = 0;
    for await (const session of source.sessions({ status, agent })) {
      if (screen.closed.aborted) return;
      if (count === 0 && !options.json) await screen.line(screen.page.paint.dim(HEADINGS));
      count += 1;
      await screen.line(options.json ? JSON.stringify(session) : toRow(session, screen));
      if (count >= limit) return;
    }
    if (count === 0) screen.note(toNone(source.where, status !== undefined || agent !== undefined));
  } finally {
    await source.close();
  }
}

function toNone(where: string, isFiltered: boolean): string {
  return isFiltered
    ? `No such sessions in ${where}. \`sluice sessions\` without a filter lists all.`
    : `No sessions in ${where}. \`sluice run "…"\` makes one.`;
}

function parseLimit(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("A limit is a whole number from 1.");
}

const HEADINGS = toColumns("SESSION", "AGENT", "STATUS", "EVENTS", "LAST EVENT", "TITLE");

function toRow(session: SessionInfo, screen: Screen): string {
  const updated = new Date(session.updatedAt).toISOString().slice(0, 19).replace("T", " ");
  const row = toColumns(
    toOneLine(session.sessionId, 128),
    toOneLine(session.agent, 40),
    toStatusWord(session),
    String(session.eventCount),
    updated,
    toOneLine(session.title ?? "", 40),
  );
  return session.status === "waiting" ? screen.page.paint.yellow(row) : row;
}

/** The status in a list for people. */
export function toStatusWord({ paused, status }: SessionInfo): string {
  return paused ? "paused" : status;
}

function toColumns(
  ...[id = "", agent = "", status = "", events = "", updated = "", title = ""]: string[]
): string {
  return `${id.padEnd(24)}  ${agent.padEnd(8)}  ${status.padEnd(8)}  ${events.padStart(6)}  ${updated.padEnd(19)}  ${title}`.trimEnd();
}
