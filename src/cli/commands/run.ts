import { resolve } from "node:path";
import type { Command } from "commander";
import { createId, type SessionSpec, SluiceError } from "../../contract/index.ts";
import type { Engine } from "../../sessions/port.ts";
import { dataDirOf } from "../dataDir.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { createPrint, formatOf } from "../formats.ts";
import type { CommandContext } from "../program.ts";
import { readPrompt } from "../prompt.ts";
import { onInterrupt } from "../signals.ts";
import { TurnRun } from "../turnRun.ts";
import { openEngine } from "../wiring.ts";

const EXAMPLES = `
The prompt "-", or none while something is piped in, is read from standard input.
Ctrl-C interrupts the turn; the session lives on. Twice kills the session.

Examples:
  sluice run "list the files here and say what they are"
  sluice run --session notes "remember this" && sluice run --session notes "what did I say?"
  sluice run --as universal '#script [{"say":"hello"}]' | jq -r .type
  echo "what is in this folder?" | sluice run --cwd /tmp

Exit codes: 0 the turn ended normally · 1 it failed · 2 bad usage · 130 it was interrupted
`;

export interface RunOptions {
  readonly agent?: string;
  readonly sandbox?: string;
  readonly as?: string;
  readonly json?: boolean;
  readonly cwd?: string;
  readonly session?: string;
  readonly data?: string;
  readonly model?: string;
  readonly permissionMode?: SessionSpec["permissionMode"];
}

export function addRun(program: Command, context: CommandContext): void {
  program
    .command("run")
    .description("Run one turn here, without a server, and watch it live.")
    .argument("[prompt...]", "what to tell the agent")
    .option("--agent <agent>", 'which agent (default: "scripted", or the session\'s own)')
    .option("--sandbox <provider>", "where it runs (default: local)")
    .option("--as <format>", "print the events of a dialect instead, one JSON per line: universal")
    .option("--json", "the same as --as universal")
    .option("--cwd <folder>", "the folder to work in (default: this one)")
    .option("--session <id>", "continue this session, or make it if there is none")
    .option("--model <model>", "the model that the agent should use")
    .option("--permission-mode <mode>", "default, plan, bypass or acceptEdits")
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .addHelpText("after", EXAMPLES)
    .action(async (words: string[], options: RunOptions) => {
      context.exit(await run(words, options, context));
    });
}

async function run(words: string[], options: RunOptions, { screen }: CommandContext): Promise<number> {
  const print = createPrint(formatOf(options), screen.page);
  const prompt = await readPrompt(words);
  const engine = await openEngine(dataDirOf(options.data));
  let turn: TurnRun | undefined;
  let isStopped = false;
  const unhook = onInterrupt(() => {
    isStopped = true;
    turn?.interrupt();
  });
  try {
    const session = await ensureSession(engine, options);
    if (isStopped) return EXIT.interrupted;
    turn = new TurnRun(engine, { session, screen, print });
    return await turn.run(prompt);
  } finally {
    unhook();
    // Ends the idle process too: nothing of a command stays behind when it is over.
    await engine.drain({ graceMs: 0 });
    await engine.log.close();
  }
}

async function ensureSession(engine: Engine, options: RunOptions): Promise<string> {
  const id = options.session ?? createId("session");
  const known = options.session === undefined ? undefined : await findSession(engine, id);
  if (!known) {
    await engine.create(id, toSpec(options));
    return id;
  }
  if (options.agent !== undefined && options.agent !== known.agent) {
    throw new CliFailure(
      `Session "${id}" belongs to the agent "${known.agent}", not to "${options.agent}". ` +
        "Leave --agent out to continue it, or choose another --session.",
      EXIT.usage,
    );
  }
  return id;
}

async function findSession(engine: Engine, id: string): Promise<{ agent: string } | undefined> {
  return engine.info(id).catch((error: unknown) => {
    if (error instanceof SluiceError && error.code === "session_not_found") return undefined;
    throw error;
  });
}

function toSpec(options: RunOptions): SessionSpec {
  return {
    agent: options.agent ?? "scripted",
    directory: resolve(options.cwd ?? "."),
    ...(options.sandbox === undefined ? {} : { sandbox: options.sandbox }),
    ...(options.model === undefined ? {} : { model: options.model }),
    ...(options.permissionMode === undefined ? {} : { permissionMode: options.permissionMode }),
  };
}
