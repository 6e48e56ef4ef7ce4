import { writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { crowd } from "./measurements/crowd.ts";
import { delivery } from "./measurements/delivery.ts";
import { dialectCost } from "./measurements/dialect-cost.ts";
import { firstEvent } from "./measurements/first-event.ts";
import { gateway } from "./measurements/gateway.ts";
import { history, replay } from "./measurements/history.ts";
import { closeConnections } from "./clients/http.ts";
import { idleStreams } from "./measurements/idle-streams.ts";
import { idle } from "./measurements/idle.ts";
import { ingest } from "./measurements/ingest.ts";
import { page } from "./measurements/page.ts";
import { installSandboxAgent } from "./contenders/sandbox-agent.ts";
import type { Measurement, Plan } from "./plan.ts";
import { readHotPath } from "./report/profile.ts";
import type { Row } from "./report/row.ts";
import { createSluice } from "./contenders/sluice.ts";
import { startup } from "./measurements/startup.ts";
import { toTable } from "./report/table.ts";
import { checkpoint } from "./measurements/checkpoint.ts";
import { sandboxStart } from "./measurements/sandbox-start.ts";
import { startCost } from "./measurements/start-cost.ts";
import { watching } from "./measurements/watch.ts";

const NO_PEER = "Not compared: run with --peers.";
const MEASUREMENTS = [
  firstEvent,
  delivery,
  ingest,
  replay,
  history,
  idle,
  startup,
  sandboxStart,
  startCost,
  checkpoint,
  watching,
  dialectCost,
  idleStreams,
  crowd,
  gateway,
  page,
];

interface Options {
  readonly only: readonly Measurement[];
  readonly quick?: boolean;
  readonly peers?: boolean;
  readonly json?: string | true;
  readonly profile?: string;
}

await new Command("bench")
  .description("Measures sluice, as ratios within one run. A figure that misses its target is no failure.")
  .addOption(
    new Option("--only <letters>", "measure these alone, such as a,b")
      .argParser(parseOnly)
      .default(MEASUREMENTS, "all of them"),
  )
  .option("--quick", "less of everything; for a first look")
  .option("--peers", "install sandbox-agent 0.4.2 into a temporary folder and measure it in the same run")
  .option("--json [file]", "the figures as JSON, to a file or to stdout (then the table goes to stderr)")
  .option("--profile <folder>", "write CPU profiles of (b)'s server and of (c), and show where the time went")
  .addHelpText("after", `\n${MEASUREMENTS.map(({ id, title }) => `  ${id}  ${title}`).join("\n")}\n`)
  .action(bench)
  .parseAsync();

async function bench(options: Options): Promise<void> {
  const profile = options.profile === undefined ? undefined : fromWhereTyped(options.profile);
  const peer = options.peers ? await findPeer() : undefined;
  const nodeFlags = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const plan: Omit<Plan, "progress"> = {
    quick: options.quick ?? false,
    rounds: options.quick ? 3 : 5,
    sluice: createSluice({ nodeFlags }),
    peer: peer ?? { absent: NO_PEER },
    ...(profile === undefined ? {} : { profile }),
  };
  const rows: Row[] = [];
  // Ctrl-C reaches the servers too: the current measurement fails, the rest is skipped, and all is cleaned up.
  let interrupted = false;
  const interrupt = (): void => {
    interrupted = true;
    process.exitCode = 130;
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    for (const { id, title, measure } of options.only) {
      const progress = (text: string): void => say(`(${id}) ${title}: ${text}`);
      if (interrupted) break;
      progress("");
      rows.push(
        ...(await measure({ ...plan, progress }).catch((error: unknown) => [toFailure(id, title, error)])),
      );
    }
  } finally {
    say("");
    closeConnections();
    if (peer && "remove" in peer) await peer.remove();
  }
  await print(rows, options);
  if (profile !== undefined) process.stderr.write(`\n${await readHotPath(profile)}\n`);
}

async function findPeer(): Promise<Awaited<ReturnType<typeof installSandboxAgent>> | { absent: string }> {
  say("installing sandbox-agent");
  try {
    return await installSandboxAgent();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return { absent: `The peer could not be installed: ${text.replaceAll(/\s+/g, " ").slice(0, 300)}` };
  }
}

async function print(rows: readonly Row[], { json, quick }: Options): Promise<void> {
  const table = `${toTable(rows)}\n`;
  if (json === undefined) {
    process.stdout.write(table);
    return;
  }
  const report = { node: process.version, cpus: availableParallelism(), quick: quick ?? false, rows };
  const text = `${JSON.stringify(report, null, 2)}\n`;
  if (json === true) {
    process.stderr.write(table);
    process.stdout.write(text);
    return;
  }
  process.stdout.write(table);
  await writeFile(fromWhereTyped(json), text);
}

function toFailure(id: string, title: string, error: unknown): Row {
  const note = `Not measured: ${error instanceof Error ? error.message : String(error)}`;
  return { id, what: title, unit: "", value: Number.NaN, verdict: "unknown", note };
}

/** One line that the next overwrites, only on a terminal. */
function say(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[2K${text}`);
}

function parseOnly(text: string): readonly Measurement[] {
  const wanted = text.split(",").map((letter) => letter.trim());
  const unknown = wanted.find((letter) => MEASUREMENTS.every(({ id }) => id !== letter));
  if (unknown !== undefined) throw new InvalidArgumentError(`There is no measurement "${unknown}".`);
  return MEASUREMENTS.filter(({ id }) => wanted.includes(id));
}

/** Relative to the user's folder: npm has changed to the project's. */
function fromWhereTyped(path: string): string {
  return resolve(process.env["INIT_CWD"] ?? process.cwd(), path);
}
