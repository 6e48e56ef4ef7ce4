import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, locateControls, type WhereOptions } from "../../source/locate.ts";

const EXAMPLES = `
The running turn ends as interrupted, or the running command if there is no turn. The session stays, and the next
message continues it.

Examples:
  sluice interrupt my-session
  sluice interrupt my-session --server http://127.0.0.1:7411

Exit codes: 0 done, also if nothing was running · 1 failed, such as an unknown session · 2 bad usage
`;

export function addInterrupt(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("interrupt")
    .description("End the running turn of a session; the session stays.")
    .argument("<session>", "the session's id");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, options: WhereOptions) => {
      const controls = await locateControls(options);
      const { turnId, commandId } = await controls.interrupt(session);
      const what = turnId ?? commandId;
      if (what === undefined) return screen.note(`Nothing was running in ${session}.`);
      await screen.line(`Interrupted ${what}`);
    });
}
