import { type Command, InvalidArgumentError } from "commander";
import type { Checkpoint } from "../../client/index.ts";
import { addWhereOptions, locateSandboxes, type WhereOptions } from "../source/locate.ts";
import { toSize } from "../terminal/amount.ts";
import { badUsage } from "../terminal/failure.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";

const EXAMPLES = `
A checkpoint keeps the workspace and the agent's own memory of the session, never its credentials.
It can be created while no turn runs.

Examples:
  sluice checkpoints my-session
  sluice checkpoints my-session --create --comment "before the refactoring"
  sluice checkpoints my-session --limit 1 --json | jq -r .id
  sluice restore my-session latest

Exit codes: 0 done · 1 failed, such as a session in which a turn runs · 2 bad usage
`;

interface CheckpointsOptions extends WhereOptions {
  readonly create?: boolean;
  readonly comment?: string;
  readonly limit?: number;
  readonly json?: boolean;
}

export function addCheckpoints(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("checkpoints")
    .description("List the checkpoints of a session, newest first, or create one.")
    .argument("<session>", "the session's id")
    .option("--create", "create a checkpoint")
    .option("--comment <text>", "a comment to keep with it")
    .option("--limit <count>", "the maximum count (default: 100)", parseLimit)
    .option("--json", "one JSON object per line");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, options: CheckpointsOptions) => checkpoints(session, options, screen));
}

async function checkpoints(session: string, options: CheckpointsOptions, screen: Screen): Promise<void> {
  const { create, comment, limit, json } = options;
  if (comment !== undefined && !create)
    throw badUsage("--comment belongs to --create: it is kept with a new checkpoint.");
  const sandboxes = await locateSandboxes(options);
  try {
    if (create) screen.status("making a checkpoint …");
    const found = create
      ? [await sandboxes.checkpoint(session, { comment })]
      : await sandboxes.checkpoints(session, { limit });
    screen.status("");
    if (json) for (const checkpoint of found) await screen.line(JSON.stringify(checkpoint));
    else if (found.length > 0) await screen.write(toTable(found, screen));
    else screen.note(`No checkpoints of ${session}. \`sluice checkpoints ${session} --create\` makes one.`);
  } finally {
    screen.status("");
    await sandboxes.close();
  }
}

function toTable(all: readonly Checkpoint[], screen: Screen): string {
  const rows = all.map(({ id, timestamp, sizeBytes, parentId = "-", comment = "" }) => [
    id,
    toWhen(timestamp),
    toSize(sizeBytes),
    parentId,
    toOneLine(comment, 60),
  ]);
  const headings = ["CHECKPOINT", "WHEN", "SIZE", "PARENT", "COMMENT"];
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const toLine = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return [screen.page.paint.dim(toLine(headings)), ...rows.map(toLine), ""].join("\n");
}

/** UTC, to the second. */
export function toWhen(timestamp: string): string {
  return new Date(timestamp).toISOString().slice(0, 19).replace("T", " ");
}

function parseLimit(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) >= 1 && Number(text) <= 500) return Number(text);
  throw new InvalidArgumentError("A limit is a whole number from 1 to 500.");
}
