import { Command } from "commander";
import pc from "picocolors";
import { addCheckpoints } from "./commands/checkpoints.ts";
import { addCp } from "./commands/cp.ts";
import { addDecode } from "./commands/decode.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addExport } from "./commands/export.ts";
import { addModel } from "./commands/model.ts";
import { addRecord } from "./commands/record.ts";
import { addRestore } from "./commands/restore.ts";
import { addRun } from "./commands/run.ts";
import { addServe } from "./commands/serve.ts";
import { addSessions } from "./commands/sessions.ts";
import { addTail } from "./commands/tail.ts";
import { CliFailure, describeFailure, EXIT } from "./failure.ts";
import { Screen } from "./screen.ts";
import { readVersion } from "./version.ts";

const EXAMPLES = `
Examples:
  sluice run "list the files here and say what they are"
  sluice run --agent scripted '#script [{"say":"hello"}]'
  sluice serve
  sluice tail ses_…

Exit codes: 0 done · 1 failed · 2 bad usage · 130 interrupted
`;

const COMMANDS = [
  addRun,
  addServe,
  addSessions,
  addTail,
  addExport,
  addCp,
  addCheckpoints,
  addRestore,
  addDecode,
  addRecord,
  addModel,
  addDoctor,
];

/** Runs one command line and answers with its exit code. */
export async function runProgram(argv: readonly string[], screen = new Screen()): Promise<number> {
  let exitCode: number = EXIT.ok;
  const exit = (code: number): void => {
    exitCode = code;
  };
  const program = createProgram({ screen, exit, argv });
  try {
    await program.parseAsync(argv);
    if (screen.failure) throw new CliFailure(`The output could not be written: ${screen.failure.message}`);
    return exitCode;
  } catch (error) {
    const failure = describeFailure(error);
    if (failure.message) screen.fail(failure.message);
    return failure.exitCode;
  }
}

/** What a command gets: where to print, and how to say with which code it ended. */
export interface CommandContext {
  readonly screen: Screen;
  readonly exit: (code: number) => void;
  /** The command line as it was given, `--` and all. */
  readonly argv: readonly string[];
}

function createProgram({ screen, exit, argv }: CommandContext): Command {
  const errors = pc.createColors(Boolean(process.stderr.isTTY) && !process.env["NO_COLOR"]);
  const program = new Command("sluice")
    .description("Runs any coding agent in a sandbox and keeps one durable event log per session.")
    .version(readVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .exitOverride()
    .showHelpAfterError("(sluice --help lists the commands, sluice COMMAND --help its options)")
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error:/, `${errors.red("sluice:")}`)),
    })
    .addHelpText("after", EXAMPLES);
  const context: CommandContext = { screen, exit, argv };
  for (const add of COMMANDS) add(program, context);
  return program;
}
