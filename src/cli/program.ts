import { Command } from "commander";
import pc from "picocolors";
import { CliFailure, describeFailure, EXIT } from "./terminal/failure.ts";
import { readVersion } from "./terminal/invocation.ts";
import { type CommandContext, Screen } from "./terminal/screen.ts";

const EXAMPLES = `
Examples:
  sluice run "list the files here and say what they are"
  sluice run --agent scripted '#script [{"say":"hello"}]'
  sluice serve
  sluice tail my-session
  sluice send my-session "and now the tests"

Exit codes: 0 done · 1 failed · 2 bad usage · 130 interrupted
`;

/** Each command is loaded by name, so that it does not slow down the start of the others. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  run: async () => (await import("./commands/run.ts")).addRun,
  chat: async () => (await import("./commands/chat.ts")).addChat,
  serve: async () => (await import("./commands/serve.ts")).addServe,
  sessions: async () => (await import("./commands/sessions.ts")).addSessions,
  tail: async () => (await import("./commands/tail.ts")).addTail,
  export: async () => (await import("./commands/export.ts")).addExport,
  cp: async () => (await import("./commands/cp.ts")).addCp,
  checkpoints: async () => (await import("./commands/checkpoints.ts")).addCheckpoints,
  restore: async () => (await import("./commands/restore.ts")).addRestore,
  move: async () => (await import("./commands/session/move.ts")).addMove,
  send: async () => (await import("./commands/session/send.ts")).addSend,
  attach: async () => (await import("./commands/session/attach.ts")).addAttach,
  answer: async () => (await import("./commands/session/answer.ts")).addAnswer,
  interrupt: async () => (await import("./commands/session/interrupt.ts")).addInterrupt,
  exec: async () => (await import("./commands/session/exec.ts")).addExec,
  port: async () => (await import("./commands/session/port.ts")).addPort,
  pause: async () => (await import("./commands/session/pause.ts")).addPause,
  resume: async () => (await import("./commands/session/resume.ts")).addResume,
  open: async () => (await import("./commands/session/open.ts")).addOpen,
  usage: async () => (await import("./commands/usage.ts")).addUsage,
  rm: async () => (await import("./commands/session/rm.ts")).addRm,
  decode: async () => (await import("./commands/recording/decode.ts")).addDecode,
  record: async () => (await import("./commands/recording/record.ts")).addRecord,
  cassette: async () => (await import("./commands/recording/cassette.ts")).addCassette,
  model: async () => (await import("./commands/model.ts")).addModel,
  webhook: async () => (await import("./commands/server/webhook.ts")).addWebhook,
  nodes: async () => (await import("./commands/server/nodes.ts")).addNodes,
  migrate: async () => (await import("./commands/migrate.ts")).addMigrate,
  token: async () => (await import("./commands/server/token.ts")).addToken,
  doctor: async () => (await import("./commands/doctor.ts")).addDoctor,
  completion: async () => (await import("./commands/completion.ts")).addCompletion,
};

type AddCommand = (program: Command, context: CommandContext) => void;

/** Runs one command line and returns its exit code. */
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
  for (const load of findLoaders(argv)) (await load())(program, context);
  return program;
}

/** The loader of the named command; without a known name, and for completion, all loaders. */
function findLoaders([, , name = ""]: readonly string[]): (() => Promise<AddCommand>)[] {
  if (name === "-V" || name === "--version") return [];
  const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  return named === undefined || name === "completion" ? Object.values(COMMANDS) : [named];
}
