import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";

const EXAMPLES = `
The processes of the session continue where they were suspended, and waiting messages are delivered. A session that is
not paused stays as it is.

Examples:
  sluice resume my-session
  sluice resume my-session --server http://127.0.0.1:7411

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

export function addResume(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("resume")
    .description("Let a paused session continue.")
    .argument("<session>", "the session's id");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, options: WhereOptions) => {
      const { client, url } = await demandServer(options);
      await named(session, url, client.resume(session));
      await screen.line(`Resumed ${session}`);
    });
}
