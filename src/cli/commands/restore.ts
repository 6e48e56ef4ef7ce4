import type { Command } from "commander";
import { addWhereOptions, locateSandboxes, type WhereOptions } from "../source/locate.ts";
import type { Sandboxes } from "../source/port.ts";
import { toSize } from "../terminal/amount.ts";
import { confirm, isAtTerminal } from "../terminal/confirm.ts";
import { CliFailure } from "../terminal/failure.ts";
import type { CommandContext, Screen } from "../terminal/screen.ts";
import { toOneLine } from "../transcript/pen.ts";
import { toWhen } from "./checkpoints.ts";

const EXAMPLES = `
The files of the session become those of the checkpoint: newer files are overwritten, and files that it does not
have are removed. The agent continues from there with the next message. A checkpoint of another session can be
restored too, if that session runs the same agent. At a terminal, a confirmation comes first.

Examples:
  sluice restore my-session latest
  sluice restore my-session ckpt_… --yes
  sluice restore other-session ckpt_… --json

Exit codes: 0 done · 1 failed or not confirmed · 2 bad usage
`;

interface RestoreOptions extends WhereOptions {
  readonly yes?: boolean;
  readonly json?: boolean;
}

export function addRestore(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("restore")
    .description("Restore the files of a session from a checkpoint.")
    .argument("<session>", "the session's id")
    .argument("<checkpoint>", "the checkpoint's id, or latest")
    .option("-y, --yes", "restore without a confirmation")
    .option("--json", "the checkpoint as one JSON object");
  addWhereOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string, checkpoint: string, options: RestoreOptions) =>
      restore(session, checkpoint, options, screen),
    );
}

async function restore(
  session: string,
  checkpoint: string,
  options: RestoreOptions,
  screen: Screen,
): Promise<void> {
  const sandboxes = await locateSandboxes(options);
  try {
    const mustConfirm = !options.yes && isAtTerminal();
    const chosen = mustConfirm ? await confirmCheckpoint(sandboxes, session, checkpoint, screen) : checkpoint;
    screen.status("restoring …");
    const restored = await sandboxes.restore(session, chosen);
    screen.status("");
    await screen.line(
      options.json
        ? JSON.stringify(restored)
        : `Restored ${restored.id} of ${toWhen(restored.timestamp)}, ${toSize(restored.sizeBytes)}`,
    );
  } finally {
    screen.status("");
    await sandboxes.close();
  }
}

/** Asks for a confirmation. Returns the id of the checkpoint, because `latest` may name another one later. */
async function confirmCheckpoint(
  sandboxes: Sandboxes,
  session: string,
  checkpoint: string,
  screen: Screen,
): Promise<string> {
  const known = await sandboxes.checkpoints(session, { limit: 500 });
  const meant = checkpoint === "latest" ? known[0] : known.find(({ id }) => id === checkpoint);
  const chosen = meant?.id ?? checkpoint;
  const when = meant ? ` of ${toWhen(meant.timestamp)}` : "";
  const comment = meant?.comment ? ` (${toOneLine(meant.comment, 60)})` : "";
  const question = `Overwrite the files of ${session} with ${chosen}${when}${comment}?`;
  if (await confirm(question, { signal: screen.closed })) return chosen;
  throw new CliFailure("Nothing was changed.");
}
