import type { Command } from "commander";
import type { SessionInfo } from "../../contract/index.ts";
import { addWhereOptions, locateSource, type WhereOptions } from "../source/locate.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
Examples:
  sluice sessions
  sluice sessions --json | jq -r .sessionId
  sluice sessions --server http://127.0.0.1:7411

Exit codes: 0 done · 1 failed · 2 bad usage
`;

export function addSessions(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("sessions")
    .description("List the sessions, newest first.")
    .option("--json", "one JSON object per line");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((options: WhereOptions & { json?: boolean }) => listSessions(options, screen));
}

async function listSessions(options: WhereOptions & { json?: boolean }, screen: Screen): Promise<void> {
  const source = await locateSource(options);
  try {
    let count = 0;
    for await (const session of source.sessions()) {
      if (screen.closed.aborted) return;
      if (count === 0 && !options.json) await screen.line(screen.page.paint.dim(HEADINGS));
      count += 1;
      await screen.line(options.json ? JSON.stringify(session) : toRow(session, screen));
    }
    if (count === 0) screen.note(`No sessions in ${source.where}. \`sluice run "…"\` makes one.`);
  } finally {
    await source.close();
  }
}

const HEADINGS = toColumns("SESSION", "AGENT", "STATUS", "EVENTS", "LAST EVENT", "TITLE");

function toRow(session: SessionInfo, screen: Screen): string {
  const updated = new Date(session.updatedAt).toISOString().slice(0, 19).replace("T", " ");
  const row = toColumns(
    session.sessionId,
    session.agent,
    session.status,
    String(session.eventCount),
    updated,
    toOneLine(session.title ?? "", 40),
  );
  return session.status === "waiting" ? screen.page.paint.yellow(row) : row;
}

function toColumns(
  ...[id = "", agent = "", status = "", events = "", updated = "", title = ""]: string[]
): string {
  return `${id.padEnd(24)}  ${agent.padEnd(8)}  ${status.padEnd(8)}  ${events.padStart(6)}  ${updated.padEnd(19)}  ${title}`.trimEnd();
}
