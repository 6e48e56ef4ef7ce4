import { renameSync, rmSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { type Exchange, formatExchange, toBody } from "../../../gateway/cassette/format.ts";
import { compareCassettes, readFacts, scrubExchange } from "../../../gateway/cassette/review.ts";
import { readCassette, toPlainPath } from "../../../gateway/cassette/tape.ts";
import { createScrub, readIdentity } from "../../../sessions/index.ts";
import { CliFailure, EXIT } from "../../terminal/failure.ts";
import type { CommandContext, Screen } from "../../terminal/screen.ts";
import { toPrintable } from "../../transcript/pen.ts";

const EXAMPLES = `
A cassette is a file of \`sluice run --record FILE\`: the answers of a model, without the prompts. \`sluice run --replay
FILE\` answers from it.

Examples:
  sluice cassette list test/cassettes
  sluice cassette show fix.cassette.jsonl 3
  sluice cassette diff old.cassette.jsonl new.cassette.jsonl
  sluice cassette scrub --check test/cassettes/*.jsonl

Exit codes: 0 done · 1 failed, or the cassettes differ, or there is something to scrub · 2 bad usage
`;

export function addCassette(program: Command, { screen, exit }: CommandContext): void {
  const command = program
    .command("cassette")
    .description("Read, compare and clean recordings of a model.")
    .addHelpText("after", EXAMPLES);
  command
    .command("list")
    .description("Print the exchanges of a cassette, or the cassettes of a folder.")
    .argument("<file>", "a cassette, or a folder of cassettes")
    .option("--json", "one JSON object per line")
    .action((file: string, options: { json?: boolean }) => list(file, options, screen));
  command
    .command("show")
    .description("Print one exchange: its request's shape, and the model's answer.")
    .argument("<file>", "a cassette")
    .argument("<number>", "of the exchange, as `list` prints it")
    .option("--json", "the line of the file")
    .action((file: string, number: string, options: { json?: boolean }) =>
      show(file, number, { ...options, screen }),
    );
  command
    .command("diff")
    .description("Print what differs between two cassettes.")
    .argument("<one>", "a cassette")
    .argument("<other>", "another cassette")
    .action(async (one: string, other: string) => exit(await diff(one, other, screen)));
  command
    .command("scrub")
    .description("Remove secrets and private data from cassettes; every recording has passed this once.")
    .argument("<files...>", "cassettes")
    .option("--check", "change nothing, and fail if there is something to remove")
    .action(async (files: string[], options: { check?: boolean }) =>
      exit(await scrub(files, options, screen)),
    );
}

function read(file: string): Exchange[] {
  try {
    return readCassette(toPlainPath(resolve(file)));
  } catch (error) {
    throw new CliFailure((error as Error).message, EXIT.failed);
  }
}

async function list(file: string, { json = false }: { json?: boolean }, screen: Screen): Promise<void> {
  const names = await readdir(file).catch(() => undefined);
  if (names === undefined) {
    for (const [at, exchange] of read(file).entries())
      await screen.line(json ? JSON.stringify(toRecord(exchange, at)) : toRow(exchange, at));
    return;
  }
  for (const name of names.filter((found) => found.endsWith(".jsonl")).toSorted()) {
    const summary = summarize(join(file, name));
    await screen.line(json ? JSON.stringify({ file: name, ...summary }) : `${name}  ${toWords(summary)}`);
  }
}

interface Summary {
  readonly exchanges?: number;
  readonly problem?: string;
}

function summarize(file: string): Summary {
  try {
    return { exchanges: read(file).length };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

function toWords({ exchanges, problem }: Summary): string {
  return problem ?? `${exchanges} exchange${exchanges === 1 ? "" : "s"}`;
}

function toRecord(exchange: Exchange, at: number): Record<string, unknown> {
  const { wire, provider, key, lane, ordinal, request, response, cut } = exchange;
  const { usage, stopReason } = readFacts(exchange);
  const { method, path, model } = request;
  const bytes = toBody(exchange).length;
  const ms = response.chunks.at(-1)?.[0] ?? 0;
  return {
    number: at + 1,
    wire,
    provider,
    method,
    path,
    model,
    status: response.status,
    stop_reason: stopReason,
    usage,
    chunks: response.chunks.length,
    bytes,
    ms,
    key,
    lane,
    ordinal,
    cut,
  };
}

function toRow(exchange: Exchange, at: number): string {
  const { request, response, cut, lane } = exchange;
  const { usage, stopReason } = readFacts(exchange);
  const tokens = usage === undefined ? "" : `${usage.input_tokens ?? 0} in ${usage.output_tokens ?? 0} out`;
  const parts = [
    String(at + 1).padStart(3),
    String(response.status),
    `${request.method} ${request.path}`,
    request.model ?? "",
    tokens,
    stopReason ?? "",
    lane === undefined ? "" : `sub-agent ${lane}`,
    cut === undefined ? "" : `cut by the ${cut}`,
  ];
  return toPrintable(parts.filter((part) => part !== "").join("  "));
}

async function show(
  file: string,
  number: string,
  { json = false, screen }: { json?: boolean; screen: Screen },
): Promise<void> {
  const exchanges = read(file);
  const exchange = /^\d+$/.test(number) ? exchanges[Number(number) - 1] : undefined;
  if (exchange === undefined)
    throw new CliFailure(
      `${file} has no exchange "${number}"; it has ${exchanges.length}, from 1.`,
      EXIT.usage,
    );
  if (json) return screen.line(JSON.stringify(exchange));
  await screen.line(toRow(exchange, Number(number) - 1));
  await screen.line(`key ${exchange.key}`);
  await screen.line(JSON.stringify(exchange.request.shape, undefined, 1));
  for (const [name, values] of Object.entries(exchange.response.headers))
    await screen.line(toPrintable(`${name}: ${values.join(", ")}`));
  for (const line of toBody(exchange).toString("utf8").split("\n")) await screen.line(toPrintable(line));
}

async function diff(one: string, other: string, screen: Screen): Promise<number> {
  const changes = compareCassettes(read(one), read(other)).filter(({ kind }) => kind !== "same");
  for (const change of changes) {
    const { kind, at, exchange } = change;
    const { method, path } = exchange.request;
    const words = {
      answer: "has another answer",
      gone: "is only in the first",
      new: "is only in the second",
      same: "",
      request: `differs in its request at ${kind === "request" ? change.path : ""}`,
    }[kind];
    await screen.line(toPrintable(`${at + 1}  ${method} ${path}  ${words}`));
  }
  if (changes.length === 0) screen.note("The cassettes have the same requests and answers.");
  return changes.length === 0 ? EXIT.ok : EXIT.failed;
}

/** Removes private data of this machine's user, and texts that look like keys. */
async function scrub(
  files: readonly string[],
  { check = false }: { check?: boolean },
  screen: Screen,
): Promise<number> {
  // The login name and the machine's name may be ordinary words, so they stay.
  const identity = { ...readIdentity(), user: "", host: "" };
  const clean = createScrub({ redact: (text: string) => text, identity, places: [] });
  const values = (bytes: Buffer): Buffer => {
    const text = bytes.toString("utf8");
    return Buffer.from(text).equals(bytes) ? Buffer.from(clean(text)) : bytes;
  };
  let found = 0;
  for (const file of files) {
    const before = read(file);
    const after = before.map((exchange) => scrubExchange(exchange, values));
    const numbers = after.flatMap((exchange, at) => (exchange === before[at] ? [] : [at + 1]));
    if (numbers.length === 0) continue;
    found += numbers.length;
    const word = check ? "has private data in" : "was cleaned in";
    await screen.line(`${file} ${word} exchange ${numbers.join(", ")}`);
    if (!check) replace(file, after.map(formatExchange).join(""));
  }
  if (found === 0) screen.note("There is nothing to remove.");
  return found > 0 && check ? EXIT.failed : EXIT.ok;
}

/** All or nothing: a full disk leaves the file as it was. */
function replace(file: string, text: string): void {
  const temporary = `${file}.${process.pid}.new`;
  try {
    writeFileSync(temporary, text, { mode: 0o600, flag: "wx" });
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new CliFailure(
      `${file} could not be written: ${(error as Error).message}. It is unchanged.`,
      EXIT.failed,
    );
  }
}
