import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureAgents } from "./agents.mjs";
import { ensureChromium } from "./chromium.mjs";
import { ensureClients } from "./clients.mjs";
import { endAs, ensureBuilt, ensureInstalled, ensureIsolation, ROOT, run } from "./setup.mjs";

await ensureInstalled();
await ensureIsolation();
await ensureChromium();
await ensureBuilt();
const env = { ...process.env, PATH: await ensureAgents(), SLUICE_TEST_CLIENTS: await ensureClients() };
const folder = mkdtempSync(join(tmpdir(), "sluice-test-"));
const report = join(folder, "report.json");
const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
const reporter = process.env.CI === "true" ? "verbose" : "default";
const args = ["run", `--reporter=${reporter}`, "--reporter=json", `--outputFile.json=${report}`];
const ended = await run(process.execPath, [vitest, ...args, ...process.argv.slice(2)], { env });
const counts = readCounts(report);
rmSync(folder, { recursive: true, force: true });
// A run that broke off before any test is a failure that the counts alone would not show.
if (ended.code !== 0 && counts.failed === 0) counts.failed = 1;
process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
endAs(ended);

function readCounts(path) {
  try {
    const { numPassedTests, numFailedTests, numFailedTestSuites, numPendingTests, numTodoTests } = JSON.parse(
      readFileSync(path, "utf8"),
    );
    // A file that could not be loaded has no tests of its own to fail.
    const failed = numFailedTests || numFailedTestSuites;
    return { passed: numPassedTests, failed, skipped: numPendingTests + numTodoTests };
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
}
