import { type Command, InvalidArgumentError } from "commander";
import { parseAddress } from "../../postgres/address.ts";
import { dataDirOf } from "../source/data-folder.ts";
import { type DatabaseOptions, databaseUrlOf } from "../source/database.ts";
import { moveFolder, type MoveReport } from "../source/move.ts";
import { toCount, toSize } from "../terminal/amount.ts";
import { badUsage } from "../terminal/failure.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";

const DIRECTION = "sqlite-to-postgres";

const EXAMPLES = `
Moves the sessions with all their events, the resources of clients, their files, secrets and tokens, and the usage, to
an empty PostgreSQL database. Stop the server first. The folder is only read, and stays as it is. A run that was
interrupted or killed goes on with the next one. At the end every session is read on both sides and compared.

Secrets are encrypted with the key that the nodes share: SLUICE_SEAL_KEY, or the file that SLUICE_SEAL_KEY_FILE names,
else with catalog.key of the folder.

Workspaces, checkpoints, the token and secrets that were given as values are in the folder, and not in the database.
Start the first node with this folder, so that its sessions keep them: \`sluice serve --data FOLDER\` with
SLUICE_DATABASE. From then on the folder belongs to the database, and its own log is no longer used.

Examples:
  SLUICE_DATABASE=postgres://sluice:password@db.example.com/sluice sluice migrate sqlite-to-postgres --data ./data
  sluice migrate --database postgres://sluice@localhost/sluice
  sluice migrate --json | jq .events

Exit codes: 0 moved and compared · 1 failed; the same command goes on · 2 bad usage
`;

interface MigrateOptions extends DatabaseOptions {
  readonly data?: string;
  readonly json?: boolean;
}

export function addMigrate(program: Command, { screen }: CommandContext): void {
  program
    .command("migrate")
    .description("Move a data folder to a PostgreSQL database.")
    .argument("[direction]", `${DIRECTION}, the only one`, parseDirection)
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .option(
      "--database <url>",
      "an empty PostgreSQL database; $SLUICE_DATABASE keeps a password out of the process list",
      parseDatabase,
    )
    .option("--json", "the report as one JSON object")
    .addHelpText("after", EXAMPLES)
    .action((_direction: string | undefined, options: MigrateOptions) => migrate(options, screen));
}

async function migrate(options: MigrateOptions, screen: Screen): Promise<void> {
  const url = databaseUrlOf(options);
  if (url === undefined)
    throw badUsage(
      "Name the database with --database or SLUICE_DATABASE: postgres://user:password@host:5432/name.",
    );
  const folder = dataDirOf(options.data);
  const report = await moveFolder(folder, url, (progress) =>
    screen.status(`· ${progress}`, screen.page.paint.dim),
  );
  screen.status("");
  await screen.line(options.json ? JSON.stringify(report) : describe(report));
  if (!options.json) screen.note(`Next: \`sluice serve --data ${folder}\` with SLUICE_DATABASE.`);
}

function describe(report: MoveReport): string {
  const { folder, database, before, sessions, events, blobs, missing, documents, secrets } = report;
  const { contents, bytes } = report;
  const what = [
    `${toCount(sessions, "session")} with ${toCount(events, "event")} and ${toCount(blobs, "large text")}`,
    toCount(documents, "document"),
    toCount(secrets, "secret"),
    `${toCount(contents, "file")} (${toSize(bytes)})`,
  ].join(", ");
  if (before) return `${folder} was moved to ${database} before: it has ${what}. Nothing was left to do.`;
  const lost =
    missing > 0 ? `\n${toCount(missing, "large text")} had no file in the folder before the move.` : "";
  return `Moved from ${folder} to ${database}: ${what}.\nEvery session was read on both sides: all events are equal.${lost}`;
}

function parseDirection(text: string): string {
  if (text === DIRECTION) return text;
  throw new InvalidArgumentError(`The only direction is ${DIRECTION}.`);
}

function parseDatabase(text: string): string {
  try {
    parseAddress(text);
    return text;
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}
