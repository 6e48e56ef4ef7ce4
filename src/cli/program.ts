import { Command } from "commander";
import pc from "picocolors";
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

/** Loaded by name: what a command needs should not cost every other one its start. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  run: async () => (await import("./commands/run.ts")).addRun,
  serve: async () => (await import("./commands/serve.ts")).addServe,
  sessions: async () => (await import("./commands/sessions.ts")).addSessions,
  tail: async () => (await import("./commands/tail.ts")).addTail,
  export: async () => (await import("./commands/export.ts")).addExport,
  cp: async () => (await import("./commands/cp.ts")).addCp,
  checkpoints: async () => (await import("./commands/checkpoints.ts")).addCheckpoints,
  restore: async () => (await import("./commands/restore.ts")).addRestore,
  decode: async () => (await import("./commands/decode.ts")).addDecode,
  record: async () => (await import("./commands/record.ts")).addRecord,
  model: async () => (await import("./commands/model.ts")).addModel,
  doctor: async () => (await import("./commands/doctor.ts")).addDoctor,
};

type AddCommand = (program: Command, context: CommandContext) => void;

/** Runs one command line and answers with its exit code. */
export async function runProgram(argv: readonly string[], screen = new Screen()): Promise<number> {
  let exitCode: number = EXIT.ok;
  const exit = (code: number): void => {
    exitCode = code;
  };
  try {
    const program = await createProgram({ screen, exit, argv });
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

async function createProgram({ screen, exit, argv }: CommandContext): Promise<Command> {
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
  for (const load of toLoad(argv)) (await load())(program, context);
  return program;
}

/** The command that is called, or all of them for who asks what there is. */
function toLoad([, , name = ""]: readonly string[]): (() => Promise<AddCommand>)[] {
  if (name === "-V" || name === "--version") return [];
  const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  return named === undefined ? Object.values(COMMANDS) : [named];
}
