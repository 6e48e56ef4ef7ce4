import { closeSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import type { Command } from "commander";
import { createId, type SluiceEvent } from "../../../contract/index.ts";
import { findHarness, formatEntry, type RecordingEntry } from "../../../harness/index.ts";
import type { Harness } from "../../../harness/port.ts";
import { createRecorder, type Recorder, type Scrub } from "../../../sessions/index.ts";
import { decodeEvents } from "../../decode-events.ts";
import {
  addAgentOptions,
  type AgentOptions,
  readPrompt,
  splitCommand,
  toSpec,
} from "../../run/agent-options.ts";
import { createEngineControls } from "../../source/controls.ts";
import { createErrorPrinter, TurnRun } from "../../run/turn-run.ts";
import { dataDirOf } from "../../source/data-folder.ts";
import { openEngine } from "../../source/engine.ts";
import { toWhereWords } from "../../source/locate.ts";
import { CliFailure, EXIT } from "../../terminal/failure.ts";
import { type CommandContext, onInterrupt, type Screen } from "../../terminal/screen.ts";
import { createPrint } from "../../transcript/formats.ts";

const EXAMPLES = `
The recording is the input of \`sluice decode\`: the input and output of the agent's process and the CLI's version.
Secrets, home paths and the names of the user and the machine are removed.

Examples:
  sluice record --agent claude --out fix.jsonl "fix the failing test"
  sluice decode --agent claude fix.jsonl | jq -r .type

Exit codes: 0 the turn ended normally · 1 it failed · 2 bad usage · 130 it was interrupted
`;

interface RecordOptions extends AgentOptions {
  readonly out?: string;
  readonly data?: string;
}

export function addRecord(program: Command, context: CommandContext): void {
  const command = program
    .command("record")
    .description("Run one turn, and record the input and output of the agent's process.")
    .argument("[prompt...]", "the prompt for the agent")
    .option("--out <file>", "the recording (default: AGENT-DATE.jsonl in this folder)");
  addAgentOptions(command)
    .option("--data <folder>", "the data folder (default: $XDG_DATA_HOME/sluice)")
    .addHelpText("after", EXAMPLES)
    .action(async (words: string[], options: RecordOptions) => {
      context.exit(await record(words, options, context));
    });
}

async function record(words: string[], options: RecordOptions, context: CommandContext): Promise<number> {
  const { screen, argv } = context;
  const { promptWords, command } = splitCommand(words, { agent: options.agent, argv });
  const prompt = await readPrompt(promptWords);
  const spec = toSpec(options, command);
  const harness = findHarness(spec.agent);
  const { version } = await harness.detect({ withVersion: true });
  const file = options.out ?? `${spec.agent}-${new Date().toISOString().replaceAll(/[:.]/g, "-")}.jsonl`;
  const descriptor = createFile(file);
  let failure: Error | undefined;
  const write = (entry: RecordingEntry): void => {
    try {
      if (!failure) writeSync(descriptor, formatEntry(entry));
    } catch (error) {
      // The turn continues; the incomplete recording is reported at the end.
      failure = error as Error;
    }
  };
  const recorder = createRecorder({ version, write });
  let code: number;
  try {
    code = await runTurn(prompt, { spec, recorder, screen, data: options.data });
  } finally {
    closeSync(descriptor);
    report(file, { harness, scrub: recorder.scrub, screen });
  }
  if (!failure) return code;
  throw new CliFailure(`The recording ${file} is not whole: ${failure.message}.`, EXIT.failed);
}

interface Run {
  readonly spec: ReturnType<typeof toSpec>;
  readonly recorder: Recorder;
  readonly screen: Screen;
  readonly data: string | undefined;
}

/** Runs one turn in a new session; resolves after the process's exit, when all is recorded. */
async function runTurn(prompt: string, { spec, recorder, screen, data }: Run): Promise<number> {
  const folder = dataDirOf(data);
  const makeOptions = () => ({ recorder, logger: createErrorPrinter(screen) });
  const controls = createEngineControls(await openEngine(folder, makeOptions), folder);
  let turn: TurnRun | undefined;
  const unhook = onInterrupt(() => turn?.interrupt());
  try {
    const session = createId("session");
    await controls.create(session, spec);
    const page = { ...screen.page, where: toWhereWords({ data }) };
    turn = new TurnRun(controls, { session, screen, print: createPrint(undefined, page) });
    return await turn.run(prompt);
  } finally {
    unhook();
    await controls.close();
  }
}

/** Reads the recording back and reports texts to check before it is shared. */
function report(
  file: string,
  { harness, scrub, screen }: { harness: Harness; scrub: Scrub; screen: Screen },
): void {
  const recording = readFileSync(file, "utf8");
  // Without a process there is no recording. The turn has reported why.
  if (recording === "") return rmSync(file);
  const events = [...decodeEvents(harness, recording, "recording")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
  screen.note(`\nRecorded ${file}: ${events.length} events.`);
  const leaks = [...joinDeltas(events).values()].filter((text) => scrub(text) !== text).length;
  if (leaks > 0)
    screen.note(
      `${leaks} of its texts still name something of this machine, split over several lines. Check them before you share it.`,
    );
}

/** The texts of the items: a whole text may contain a secret that no single delta contains. */
function joinDeltas(events: readonly SluiceEvent[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const event of events) {
    if (event.type !== "item.delta") continue;
    const { item_id: id, delta } = event.data;
    texts.set(id, (texts.get(id) ?? "") + delta);
  }
  return texts;
}

function createFile(file: string): number {
  try {
    return openSync(file, "wx", 0o600);
  } catch (error) {
    throw new CliFailure(
      `The recording cannot be written: ${(error as Error).message}. Choose another --out.`,
      EXIT.failed,
    );
  }
}
