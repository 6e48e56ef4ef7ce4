import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { homeFolder } from "../../sandbox/data-folder.ts";
import { Chat } from "../chat/chat.ts";
import type { CommandContext } from "../terminal/screen.ts";
import { addAgentOptions } from "../run/agent-options.ts";
import { type ChoiceOptions, findLast, toControls } from "../run/session-choice.ts";
import { locateServer } from "../source/locate.ts";
import { isAtTerminal } from "../terminal/confirm.ts";
import { CliFailure, EXIT } from "../terminal/failure.ts";
import { onInterrupt, type Screen } from "../terminal/screen.ts";

const EXAMPLES = `
Enter sends. Alt-Enter, or a backslash at the end of a line, begins another line. Ctrl-C interrupts the running turn,
Ctrl-D leaves. The agent's requests are asked in place. /help lists the commands of the chat.

The sessions are those of the server, if one is named or runs for the data folder; else the chat runs them itself.

Examples:
  sluice chat
  sluice chat -c
  sluice chat my-session
  sluice chat --agent claude --cwd ~/project
  sluice chat --server http://127.0.0.1:7411

Exit codes: 0 left · 1 failed, such as an unknown session · 2 bad usage, such as no terminal
`;

export function addChat(program: Command, { screen }: CommandContext): void {
  const command = program
    .command("chat")
    .description("Talk with an agent at the terminal.")
    .argument("[session]", "the session to continue; without one, a new one begins")
    .option("-c, --continue", "continue the last session");
  addAgentOptions(command)
    .option(
      "--server <url>",
      "the server (default: $SLUICE_URL, then the config file, then the running server of the data folder)",
    )
    .option("--token <token>", "its token (default: $SLUICE_TOKEN, then the data folder's own)")
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .addHelpText("after", EXAMPLES)
    .action((session: string | undefined, options: ChoiceOptions) => chat(session, options, screen));
}

async function chat(session: string | undefined, options: ChoiceOptions, screen: Screen): Promise<void> {
  if (!isAtTerminal() || !screen.isLive)
    throw new CliFailure(
      "A chat needs a terminal. In a script, use `sluice run PROMPT` or `sluice send SESSION PROMPT`.",
      EXIT.usage,
    );
  const controls = await toControls(await locateServer(options), options, screen);
  try {
    const id = session ?? (options.continue ? (await findLast(controls, options))?.sessionId : undefined);
    if (id !== undefined) await demandSession(id, () => controls.info(id));
    const { paint } = screen.page;
    const what = id === undefined ? "a new session" : `session ${id}`;
    screen.note(paint.dim(`${what} · ${controls.where} · /help lists commands, Ctrl-D leaves`));
    const history = readHistory();
    const talk = new Chat(controls, { screen, choice: options, history });
    const unhook = onInterrupt(() => talk.leave());
    try {
      await talk.run(id);
    } finally {
      unhook();
      saveHistory(history);
    }
    if (talk.session !== undefined)
      screen.note(paint.dim(`\`sluice chat ${talk.session}\` continues this session.`));
  } finally {
    await controls.close();
  }
}

async function demandSession(id: string, info: () => Promise<{ ended: boolean }>): Promise<void> {
  const { ended } = await info();
  if (ended) throw new CliFailure(`The session ${id} has ended. \`sluice chat\` begins a new one.`);
}

const KEPT_LINES = 500;

function historyFile(env: NodeJS.ProcessEnv = process.env): string {
  const state = env["XDG_STATE_HOME"] || join(homeFolder(env), ".local", "state");
  return join(state, "sluice", "chat-history");
}

/** The lines of earlier chats, newest first. */
function readHistory(): string[] {
  try {
    const lines = readFileSync(historyFile(), "utf8").split("\n");
    return lines.filter((line) => line !== "").slice(0, KEPT_LINES);
  } catch {
    return [];
  }
}

/** Stores the lines. A failure to store them is ignored. */
function saveHistory(lines: readonly string[]): void {
  try {
    mkdirSync(dirname(historyFile()), { recursive: true, mode: 0o700 });
    writeFileSync(historyFile(), lines.slice(0, KEPT_LINES).join("\n"), { mode: 0o600 });
  } catch {
    return;
  }
}
