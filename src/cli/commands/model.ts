import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { Writable } from "node:stream";
import type { Command } from "commander";
import { createScriptedModel, type ModelRequest } from "../../model/index.ts";
import { parsePort } from "../terminal/amount.ts";
import { CliFailure, EXIT } from "../terminal/failure.ts";
import { type CommandContext, onInterrupt } from "../terminal/screen.ts";

const EXAMPLES = `
It answers Anthropic Messages, OpenAI Responses, Chat Completions and Gemini. The newest user text with a line that
starts with #script says what it does; any other prompt is quoted. Every key is accepted.

Examples:
  sluice model --port 8090
  ANTHROPIC_BASE_URL=http://127.0.0.1:8090 ANTHROPIC_API_KEY=any claude -p '#script [{"say":"hello"}]'
  sluice model --log requests.jsonl

Exit codes: 0 stopped by a signal · 1 failed, such as a port in use · 2 bad usage
`;

interface ModelOptions {
  readonly port: number;
  readonly log?: string;
}

export function addModel(program: Command, context: CommandContext): void {
  program
    .command("model")
    .description("Serve a scripted model on this machine, for agents without a key or a network.")
    .option("--port <port>", "the port to listen on; 0 picks a free one", parsePort, 0)
    .option("--log <file>", "append each request to this file, one JSON per line")
    .addHelpText("after", EXAMPLES)
    .action((options: ModelOptions) => serveModel(options, context));
}

async function serveModel({ port, log }: ModelOptions, { screen, exit }: CommandContext): Promise<void> {
  const file = log === undefined ? undefined : await openLog(log);
  const onRequest = (request: ModelRequest): void => void file?.write(`${JSON.stringify(request)}\n`);
  const model = await createScriptedModel({ port, keep: 0, onRequest }).catch((error: Error) => {
    throw new CliFailure(`Cannot listen on port ${port}: ${error.message}`, EXIT.failed, { cause: error });
  });
  const stopped = new Promise<void>((resolve) => {
    onInterrupt(() => resolve());
  });
  await screen.line(`sluice model listening on ${model.url}`);
  await stopped;
  await model.close();
  if (file !== undefined) await new Promise<void>((resolve) => file.end(() => resolve()));
  exit(EXIT.ok);
}

async function openLog(path: string): Promise<Writable> {
  const file = createWriteStream(path, { flags: "a", mode: 0o600 });
  await once(file, "open").catch((error: Error) => {
    throw new CliFailure(`Cannot write the log: ${error.message}`, EXIT.failed, { cause: error });
  });
  return file;
}
