import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { isThisMachine } from "../../run/session-choice.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";
import { parseOpenPort } from "../../terminal/amount.ts";

const EXAMPLES = `
Prints the address at which a program in the session's sandbox is reached. On this machine that is the program itself;
on another machine it is the server, which forwards requests and needs the token with each of them.

Examples:
  sluice port my-session 3000
  curl "$(sluice port my-session 3000)/health"

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

export function addPort(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("port")
    .description("Print the address of a port of a session's sandbox.")
    .argument("<session>", "the session's id")
    .argument("<port>", "the port in the sandbox", parseOpenPort);
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, port: number, options: WhereOptions) => {
      const { client, url } = await demandServer(options);
      const { origin } = await named(session, url, client.host(session, port));
      await screen.line(isThisMachine(url) ? origin : client.portUrl(session, port, "").replace(/\/$/, ""));
    });
}
