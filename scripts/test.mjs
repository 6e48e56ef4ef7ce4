import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureAgents } from "./agents.mjs";
import { ensureClients } from "./clients.mjs";
import { ensureProxies } from "./proxies.mjs";
import {
  endAs,
  ensureBuilt,
  ensureChromium,
  ensureInstalled,
  ensureIsolation,
  ensureTerminal,
  ROOT,
  run,
} from "./setup.mjs";

const given = process.argv.slice(2);
const isAll = given.includes("--all");
const asked = given.filter((argument) => argument !== "--all");
// The long tests need minutes, a browser, real agents or large clients; a newcomer's first run does without them.
const isQuick = !isAll && asked.length === 0;

await ensureInstalled();
await ensureIsolation();
if (!isQuick) await ensureChromium();
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
const results = await Promise.all(runs());
rmSync(folder, { recursive: true, force: true });
for (const { ended } of results.slice(1)) process.stdout.write(ended.output);
const sum = (name) => results.reduce((all, { counts }) => all + counts[name], 0);
process.stdout.write(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped\n`);
endAs((results.find(({ ended }) => ended.code !== 0) ?? results[0]).ended);

function runs() {
  if (isQuick) return [test("quick", ["--exclude", "test/**/*.long.test.ts"])];
  // The soak mostly waits, so it runs beside the other tests.
  if (process.env.CI === "true" && asked.length === 0)
    return [test("others", ["--exclude", "test/soak/**"]), test("soak", ["test/soak"], { quiet: true })];
  return [test("asked", asked)];
}

async function test(name, args, { quiet = false } = {}) {
  const report = join(folder, `${name}.json`);
  const reporters = [`--reporter=${reporter}`, "--reporter=json", `--outputFile.json=${report}`];
  const ended = await run(process.execPath, [vitest, "run", ...reporters, ...args], { env, quiet });
  const counts = readCounts(report);
  // A run that ended before its first test has no failed test to count.
  if (ended.code !== 0 && counts.failed === 0) counts.failed = 1;
  return { ended, counts };
}

function readCounts(path) {
  try {
    const { numPassedTests, numFailedTests, numFailedTestSuites, numPendingTests, numTodoTests } = JSON.parse(
      readFileSync(path, "utf8"),
    );
    // A file that could not be loaded has no failed tests either.
    const failed = numFailedTests || numFailedTestSuites;
    return { passed: numPassedTests, failed, skipped: numPendingTests + numTodoTests };
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
}
