import { readFileSync } from "node:fs";
import { basename, extname } from "node:path";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { findHarness } from "../../../harness/index.ts";
import { decodeEvents } from "../../decode-events.ts";
import { CliFailure } from "../../terminal/failure.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";
import { createPrint, FORMAT_LIST } from "../../transcript/formats.ts";

const EXAMPLES = `
A recording is JSON Lines: {"t": ms, "dir": "meta"|"in"|"out"|"err"|"exit", "raw": "the line"}; "b64" instead of
"raw" for bytes that are not UTF-8. No process is started, and two runs print the same bytes.

Examples:
  sluice decode --agent scripted recording.jsonl
  sluice decode --agent scripted - < recording.jsonl | jq -r .type

Exit codes: 0 done · 1 failed, such as an unknown agent or an unreadable file · 2 bad usage
`;

interface DecodeOptions {
  readonly agent: string;
  readonly as: string;
}

export function addDecode(program: Command, { screen }: CommandContext): void {
  program
    .command("decode")
    .description("Decode a recording of an agent's process into events, one JSON per line.")
    .argument("<file>", "the recording, or - for standard input")
    .requiredOption("--agent <agent>", "the agent of the recording")
    .option("--as <format>", `the dialect of the events: ${FORMAT_LIST}`, "universal")
    .addHelpText("after", EXAMPLES)
    .action((file: string, options: DecodeOptions) => decode(file, options, screen));
}

async function decode(file: string, options: DecodeOptions, screen: Screen): Promise<void> {
  const harness = findHarness(options.agent);
  const print = createPrint(options.as, screen.page);
  const recording = file === "-" ? await text(process.stdin) : readRecording(file);
  for (const event of decodeEvents(harness, recording, sessionOf(file))) {
    await screen.write(print(event));
    if (screen.closed.aborted) return;
  }
}

function readRecording(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CliFailure(`Cannot read the recording: ${(error as Error).message}`, 1, { cause: error });
  }
}

function sessionOf(file: string): string {
  return file === "-" ? "stdin" : basename(file, extname(file));
}
