import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Command } from "commander";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";
import type { Screen } from "../../terminal/screen.ts";

const EXAMPLES = `
Prints the address of the server's page, or of a session on it. At a terminal it also opens the page in a browser.

Examples:
  sluice open
  sluice open my-session
  sluice open my-session --print

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface OpenOptions extends WhereOptions {
  readonly print?: boolean;
}

export function addOpen(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("open")
    .description("Open a session in the browser.")
    .argument("[session]", "the session's id; without one, the page of all sessions")
    .option("--print", "only print the address");
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string | undefined, options: OpenOptions) => open(session, options, screen));
}

async function open(session: string | undefined, options: OpenOptions, screen: Screen): Promise<void> {
  const { client, url } = await demandServer(options);
  // Also without a session: a wrong token or a server that does not answer is told here, not by the browser.
  if (session === undefined) await client.sessions.list({ limit: 1 });
  else await named(session, url, client.sessions.get(session));
  const address = `${url}/ui/${session === undefined ? "" : `#/s/${encodeURIComponent(session)}`}`;
  await screen.line(address);
  if (options.print || !screen.isLive) return;
  if (!(await openInBrowser(address)))
    screen.note("No browser could be opened here. Open the address yourself.");
}

/** Returns false where no program for that is found. */
async function openInBrowser(address: string): Promise<boolean> {
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [address], { stdio: "ignore", detached: true });
  child.unref();
  return once(child, "spawn").then(
    () => true,
    () => false,
  );
}
