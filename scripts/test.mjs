import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureAgents } from "./agents.mjs";
import { ensureClients } from "./clients.mjs";
import {
  endAs,
  ensureBuilt,
  ensureChromium,
  ensureInstalled,
  ensureIsolation,
  ensureTmux,
  ROOT,
  run,
} from "./setup.mjs";

await ensureInstalled();
await ensureIsolation();
await ensureChromium();
await ensureTmux();
await ensureBuilt();
const env = { ...process.env, PATH: await ensureAgents(), SLUICE_TEST_CLIENTS: await ensureClients() };
const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
const reporter = process.env.CI === "true" ? "verbose" : "default";
const asked = process.argv.slice(2);
// The soak mostly waits, so it runs beside the other tests.
const isSoakBeside = process.env.CI === "true" && asked.length === 0;
const runs = isSoakBeside
  ? [test("others", ["--exclude", "test/soak/**"]), test("soak", ["test/soak"], { quiet: true })]
  : [test("all", asked)];
const results = await Promise.all(runs);
rmSync(folder, { recursive: true, force: true });
for (const { ended } of results.slice(1)) process.stdout.write(ended.output);
const sum = (name) => results.reduce((all, { counts }) => all + counts[name], 0);
process.stdout.write(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped\n`);
endAs((results.find(({ ended }) => ended.code !== 0) ?? results[0]).ended);

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
