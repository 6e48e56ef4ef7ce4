import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";

const EXAMPLES = `
Every process of the session is suspended where it is, and uses no processor time. Messages and answers wait until
"sluice resume". The local sandbox can pause on Linux only.

Examples:
  sluice pause my-session
  sluice pause my-session --server http://127.0.0.1:7411

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

export function addPause(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("pause")
    .description("Suspend every process of a session; messages wait.")
    .argument("<session>", "the session's id");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, options: WhereOptions) => {
      const { client, url } = await demandServer(options);
      await named(session, url, client.pause(session));
      await screen.line(`Paused ${session}`);
    });
}
