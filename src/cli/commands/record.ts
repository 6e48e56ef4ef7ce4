import { closeSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import type { Command } from "commander";
import { createId, type SluiceEvent } from "../../contract/index.ts";
import { findHarness, formatEntry, type RecordingEntry } from "../../harness/index.ts";
import type { Harness } from "../../harness/port.ts";
import { createRecorder, type Recorder, type Scrub } from "../../sessions/index.ts";
import { addAgentOptions, type AgentOptions, splitCommand, toSpec } from "../agentOptions.ts";
import { dataDirOf } from "../dataDir.ts";
import { decodeEvents } from "../decode/decodeEvents.ts";
import { CliFailure, EXIT } from "../failure.ts";
import { createPrint } from "../formats.ts";
import type { CommandContext } from "../program.ts";
import { readPrompt } from "../prompt.ts";
import type { Screen } from "../screen.ts";
import { onInterrupt } from "../signals.ts";
import { createTroubleNotes } from "../troubles.ts";
import { TurnRun } from "../turnRun.ts";
import { toWhereWords } from "../where.ts";
import { openEngine } from "../wiring.ts";

const EXAMPLES = `
The recording is what \`sluice decode\` reads: all that the agent's process was told and said, the CLI's version, and
nothing that says whose it is: secrets, home paths, the names of the user and the machine are taken out.

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
    .description("Run one turn, and keep all that the agent's process said as a recording.")
    .argument("[prompt...]", "what to tell the agent")
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
  const { said, command } = splitCommand(words, { agent: options.agent, argv });
  const prompt = await readPrompt(said);
  const spec = toSpec(options, command);
  const harness = findHarness(spec.agent);
  const { version } = await harness.detect({ withVersion: true });
  const file = options.out ?? `${spec.agent}-${new Date().toISOString().replaceAll(/[:.]/g, "-")}.jsonl`;
  const descriptor = create(file);
  let failure: Error | undefined;
  const write = (entry: RecordingEntry): void => {
    try {
      if (!failure) writeSync(descriptor, formatEntry(entry));
    } catch (error) {
      // The agent's work goes on; that its recording is not whole is told at the end.
      failure = error as Error;
    }
  };
  const recorder = createRecorder({ version, write });
  let code: number;
  try {
    code = await runTurn(prompt, { spec, recorder, screen, data: options.data });
  } finally {
    closeSync(descriptor);
    tell(file, { harness, scrub: recorder.scrub, screen });
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

/** One turn of a session of its own; its process has ended, and all of it is recorded, when this answers. */
async function runTurn(prompt: string, { spec, recorder, screen, data }: Run): Promise<number> {
  const engine = await openEngine(dataDirOf(data), () => ({
    recorder,
    logger: createTroubleNotes(screen),
  }));
  let turn: TurnRun | undefined;
  const unhook = onInterrupt(() => turn?.interrupt());
  try {
    const session = createId("session");
    await engine.create(session, spec);
    const page = { ...screen.page, where: toWhereWords({ data }) };
    turn = new TurnRun(engine, { session, screen, print: createPrint(undefined, page) });
    return await turn.run(prompt);
  } finally {
    unhook();
    await engine.drain({ graceMs: 0 });
    await engine.log.close();
  }
}

/** Reads the recording back: whoever gives it away should know what is in it. */
function tell(
  file: string,
  { harness, scrub, screen }: { harness: Harness; scrub: Scrub; screen: Screen },
): void {
  const recording = readFileSync(file, "utf8");
  // Nothing was started, and somebody else says why.
  if (recording === "") return rmSync(file);
  const events = [...decodeEvents(harness, recording, "recording")].map(
    ({ body }) => JSON.parse(body) as SluiceEvent,
  );
  screen.note(`\nRecorded ${file}: ${events.length} events.`);
  const leaks = [...joinDeltas(events).values()].filter((text) => scrub(text) !== text).length;
  if (leaks > 0)
    screen.note(
      `${leaks} of its texts still name something of this machine, in pieces: look before you share it.`,
    );
}

/** A text that came in pieces may hold what none of its pieces does. */
function joinDeltas(events: readonly SluiceEvent[]): Map<string, string> {
  const texts = new Map<string, string>();
  for (const event of events) {
    if (event.type !== "item.delta") continue;
    const { item_id: id, delta } = event.data;
    texts.set(id, (texts.get(id) ?? "") + delta);
  }
  return texts;
}

function create(file: string): number {
  try {
    return openSync(file, "wx", 0o600);
  } catch (error) {
    throw new CliFailure(
      `The recording cannot be written: ${(error as Error).message}. Choose another --out.`,
      EXIT.failed,
    );
  }
}
