import type { Command } from "commander";
import type { SluiceClient } from "../../../client/index.ts";
import type { EventOf } from "../../../contract/index.ts";
import type { CommandContext } from "../../terminal/screen.ts";
import { addServerOptions, demandServer, type WhereOptions } from "../../source/locate.ts";
import { named } from "../../source/server.ts";
import { parseShortDuration } from "../../terminal/amount.ts";
import { CliFailure, EXIT } from "../../terminal/failure.ts";
import { quoteWord } from "../../terminal/invocation.ts";
import { onInterrupt, type Screen } from "../../terminal/screen.ts";

const EXAMPLES = `
The program runs in the session's sandbox, in its workspace, without standard input unless -i is given: then all of it is
read first, at most 12 MB. Its output is text and goes to standard output and standard error; its exit code is the exit
code of this command. One command at a time, and none while a turn runs. Its start, output and end are in the session's
log, its input is not. Ctrl-C ends it; a second Ctrl-C leaves it to the server.

Examples:
  sluice exec my-session -- ls -la
  sluice exec my-session -- sh -c 'npm test 2>&1 | tail -20'
  sluice exec my-session -i -- sh -c 'cat > notes.txt' < notes.txt
  sluice exec my-session --cwd src --timeout 10m -- make

Exit codes: those of the program · 1 also for a failure of this command · 2 bad usage · 130 interrupted
`;

/** The exit code of the program `timeout`. */
const TIMED_OUT = 124;

/** Base64 makes the input a third longer, and the request has to stay within the server's limit. */
const MAX_INPUT_BYTES = 12 * 1024 * 1024;

interface ExecOptions extends WhereOptions {
  readonly stdin?: boolean;
  readonly cwd?: string;
  readonly timeout?: number;
}

export function addExec(program: Command, context: CommandContext): void {
  const command = program
    .command("exec")
    .description("Run a program in a session's sandbox.")
    .argument("<session>", "the session's id")
    .argument("<argv...>", "the program and its arguments, behind --")
    .option("-i, --stdin", "pass standard input to the program")
    .option("--cwd <folder>", "another folder of the sandbox (default: the workspace)")
    .option(
      "--timeout <duration>",
      "end it after this time, such as 30s or 10m (default: 1h)",
      parseShortDuration,
    );
  addServerOptions(command)
    .addHelpText("after", EXAMPLES)
    .action(async (session: string, argv: string[], options: ExecOptions) => {
      context.exit(await exec(session, argv, options, context.screen));
    });
}

async function exec(
  session: string,
  argv: readonly string[],
  { cwd, timeout, stdin, ...where }: ExecOptions,
  screen: Screen,
): Promise<number> {
  const { client, url } = await demandServer(where);
  const input = stdin ? await readInput() : {};
  const { commandId, after } = await named(
    session,
    url,
    client.runCommand(session, {
      command: argv.map(quoteWord).join(" "),
      ...(cwd === undefined ? {} : { cwd }),
      ...(timeout === undefined ? {} : { timeoutMs: timeout }),
      ...input,
    }),
  );
  let interrupts = 0;
  const unhook = onInterrupt(() => {
    interrupts += 1;
    // The server might not answer any more.
    if (interrupts > 1) process.exit(EXIT.interrupted);
    void client.interrupt(session).catch(() => {});
  });
  try {
    return toExitCode(await follow(client, { session, commandId, after }, screen), screen);
  } finally {
    unhook();
  }
}

async function readInput(): Promise<{ stdin: string; stdinEncoding: "base64" }> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of process.stdin) {
    chunks.push(chunk as Buffer);
    length += (chunk as Buffer).length;
    if (length > MAX_INPUT_BYTES)
      throw new CliFailure("The input is larger than 12 MB. Copy it with `sluice cp`, and read it there.");
  }
  return { stdin: Buffer.concat(chunks).toString("base64"), stdinEncoding: "base64" };
}

/** Prints the output. The command continues when its reader has gone, as with `| head`. */
async function follow(
  client: SluiceClient,
  { session, commandId, after }: { session: string; commandId: string; after: number },
  screen: Screen,
): Promise<EventOf<"command.ended">["data"]> {
  for await (const event of client.subscribe(session, { after, extensions: true })) {
    if (event.type === "command.output" && event.data.command_id === commandId) {
      if (event.data.stream === "stdout") await screen.write(event.data.text);
      else process.stderr.write(event.data.text);
    }
    if (event.type === "command.ended" && event.data.command_id === commandId) return event.data;
  }
  throw new CliFailure(`The session ${session} ended before the command did.`);
}

function toExitCode({ exit_code: code, reason }: EventOf<"command.ended">["data"], screen: Screen): number {
  if (reason === "interrupted") return EXIT.interrupted;
  if (reason === "timeout") {
    screen.fail("The command took too long and was ended. --timeout gives it more time.");
    return TIMED_OUT;
  }
  if (code !== undefined) return code;
  screen.fail(`The command has no exit code: its process was ${reason ?? "lost"}.`);
  return EXIT.failed;
}
