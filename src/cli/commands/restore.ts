import type { Command } from "commander";
import { toSize } from "../amount.ts";
import { confirm, isAtTerminal } from "../confirm.ts";
import { CliFailure } from "../failure.ts";
import { locateSandboxes, type WhereOptions } from "../locate.ts";
import type { CommandContext } from "../program.ts";
import type { Sandboxes } from "../sandboxes.ts";
import type { Screen } from "../screen.ts";
import { toOneLine } from "../transcript/clean.ts";
import { addWhereOptions } from "../where.ts";
import { toWhen } from "./checkpoints.ts";

const EXAMPLES = `
The files of the session become what the checkpoint kept: newer ones are overwritten, and those that it does
not have are removed. The agent goes on from there with the next message. A checkpoint of another session
can be restored too, if that session runs the same agent. At a terminal it asks first.

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
    .description("Make the files of a session what a checkpoint kept.")
    .argument("<session>", "the session's id")
    .argument("<checkpoint>", "the checkpoint's id, or latest")
    .option("-y, --yes", "do not ask")
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
    const isAsked = !options.yes && isAtTerminal();
    const chosen = isAsked ? await ask(sandboxes, session, checkpoint, screen) : checkpoint;
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

/** Answers which one was agreed to: `latest` may be another a moment later. */
async function ask(
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
