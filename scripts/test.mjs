import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { ensureAgents } from "./agents.mjs";
import { ensureClients } from "./clients.mjs";
import { ensureProxies } from "./proxies.mjs";
import {
  endAs,
  ensureBuilt,
  ensureChromium,
  ensureInstalled,
  ensureIsolation,
  ensureServers,
  ensureTerminal,
  ROOT,
  run,
} from "./setup.mjs";

/** More failed files than this are no accident. */
const MOST_REPEATED = 16;

const given = process.argv.slice(2);
const isAll = given.includes("--all");
const asked = given.filter((argument) => argument !== "--all");
// The long tests need minutes, a browser, real agents or large clients; a newcomer's first run does without them.
const isQuick = !isAll && asked.length === 0;

await ensureInstalled();
await ensureIsolation();
if (!isQuick) await ensureChromium();
if (!isQuick) await ensureServers();
await ensureTerminal();
await ensureBuilt();
const env = isQuick
  ? process.env
  : {
      ...process.env,
      PATH: await ensureProxies(await ensureAgents()),
      SLUICE_TEST_CLIENTS: await ensureClients(),
    };
const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
const reporter = process.env.CI === "true" ? "verbose" : "default";
const results = await repeatFailed(await Promise.all(runs()));
rmSync(folder, { recursive: true, force: true });
for (const { ended } of results.slice(1)) process.stdout.write(ended.output);
const files = new Map(results.flatMap((result) => [...result.files]));
const count = (...statuses) =>
  [...files.values()].flat().filter((status) => statuses.includes(status)).length;
const failed = results.filter(({ isSettled }) => !isSettled);
// A run that ended before its first test, or a file that could not be loaded, has no failed test to count.
const failures = failed.length === 0 ? 0 : Math.max(1, count("failed"));
process.stdout.write(
  `${count("passed")} passed, ${failures} failed, ${count("skipped", "pending", "todo")} skipped\n`,
);
endAs((failed[0] ?? { ended: { code: 0 } }).ended);

function runs() {
  if (isQuick) return [test("quick", ["--exclude", "test/**/*.long.test.ts"])];
  // The soak mostly waits, so it runs beside the other tests.
  if (process.env.CI === "true" && asked.length === 0)
    return [test("others", ["--exclude", "test/soak/**"]), test("soak", ["test/soak"], { quiet: true })];
  return [test("asked", asked)];
}

/**
 * The tests start hundreds of real processes on a shared machine, where one can be starved. Under CI a file with a
 * failed test runs once more: whole, on new servers, and with nothing beside it. A fault fails each time.
 */
async function repeatFailed(results) {
  const broken = results.flatMap(({ brokenFiles }) => brokenFiles);
  if (process.env.CI !== "true" || broken.length === 0 || broken.length > MOST_REPEATED) return results;
  const list = broken.map((file) => `  ${relative(ROOT, file)}\n`).join("");
  process.stdout.write(`\nThese files have failed tests and run once more, alone:\n${list}`);
  const again = await test("again", ["--maxWorkers=1", ...broken]);
  const first = results.map((result) => ({
    ...result,
    isSettled: result.isSettled || result.brokenFiles.length > 0,
  }));
  return [...first, { ...again, ended: { ...again.ended, output: "" } }];
}

/** Runs tests; `files` has the statuses of the tests of each file. */
async function test(name, args, { quiet = false } = {}) {
  const report = join(folder, `${name}.json`);
  const reporters = [`--reporter=${reporter}`, "--reporter=json", `--outputFile.json=${report}`];
  const ended = await run(process.execPath, [vitest, "run", ...reporters, ...args], { env, quiet });
  const results = readResults(report);
  return {
    ended,
    isSettled: ended.code === 0,
    files: results.map(({ name, assertionResults }) => [name, assertionResults.map(({ status }) => status)]),
    brokenFiles: results.filter(({ status }) => status === "failed").map(({ name }) => name),
  };
}

function readResults(report) {
  try {
    return JSON.parse(readFileSync(report, "utf8")).testResults;
  } catch {
    return [];
  }
}
