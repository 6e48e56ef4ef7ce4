import { spawn } from "node:child_process";
import { once } from "node:events";
import { type Command, Option } from "commander";
import { Scope } from "../../../contract/index.ts";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";
import type { Screen } from "../../terminal/screen.ts";

const EXAMPLES = `
Prints the address of the server's page, or of a session on it. At a terminal it also opens the page in a browser.
The address logs one browser in, once, within a minute; it holds no token. With --scope the browser may do less:
read, answer (requests of agents), control (sessions) or admin. With a session and a --scope it reaches that session
alone, so that the address can be given to somebody else.

Examples:
  sluice open
  sluice open my-session
  sluice open my-session --print
  sluice open my-session --scope read --print

Exit codes: 0 done · 1 failed, such as an unknown session · 2 bad usage
`;

interface OpenOptions extends WhereOptions {
  readonly print?: boolean;
  readonly scope?: Scope;
}

export function addOpen(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("open")
    .description("Open a session in the browser.")
    .argument("[session]", "the session's id; without one, the page of all sessions")
    .option("--print", "only print the address")
    .addOption(new Option("--scope <scope>", "what the browser may do").choices(Scope.options));
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action((session: string | undefined, options: OpenOptions) => open(session, options, screen));
}

async function open(session: string | undefined, options: OpenOptions, screen: Screen): Promise<void> {
  const { client, url } = await demandServer(options);
  // Checks the server even without a session: a wrong token is reported here and not in the browser.
  if (session === undefined) await client.sessions.list({ limit: 1 });
  else await named(session, url, client.sessions.get(session));
  const only = options.scope === undefined ? {} : { scope: options.scope, session };
  const { code } = await client.tokens.code(only);
  const page = session === undefined ? "" : `/s/${encodeURIComponent(session)}`;
  const address = `${url}/ui/${toFragment(code, page)}`;
  await screen.line(address);
  if (options.print || !screen.isLive) return;
  if (!(await openInBrowser(address)))
    screen.note("No browser could be opened here. Open the address yourself.");
}

/** The page removes the code from the address before it does anything else. */
function toFragment(code: string | undefined, page: string): string {
  if (code === undefined) return page && `#${page}`;
  return `#k=${code}${page && `&to=${page}`}`;
}

/** Returns false if this system has no program that opens a browser. */
async function openInBrowser(address: string): Promise<boolean> {
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [address], { stdio: "ignore", detached: true });
  child.unref();
  return once(child, "spawn").then(
    () => true,
    () => false,
  );
}
