import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureInstalled, ROOT, run, say } from "./setup.mjs";

await ensureInstalled();
const bin = (name) => join(ROOT, "node_modules", ".bin", name);
const code = ["src", "test", "bench", "scripts"];
const failures = [];

await step("lint", () => passes(bin("oxlint"), ["--deny-warnings", ...code]));
await step("format", () => passes(bin("oxfmt"), ["--check", ...code]));
await step("types", () => passes(bin("tsc"), ["--noEmit"]));
// Before the build, which would write the file and so hide the drift. The tests build for themselves.
const described = existsSync(join(ROOT, "openapi.json"))
  ? readFileSync(join(ROOT, "openapi.json"), "utf8")
  : "";
await step("build", () => passes("npm", ["run", "--silent", "build"]));
await step("openapi", () => isDescribed(described));
await step("test", () => passes(process.execPath, [join(ROOT, "scripts", "test.mjs"), "--all"]));
await step("publint", () => passes(bin("publint"), ["--strict"]));

if (failures.length > 0) {
  say(`check failed: ${failures.join(", ")}`);
  process.exit(1);
}
say("check passed");

async function step(name, work) {
  say(`check: ${name}`);
  if (!(await work())) failures.push(name);
}

async function passes(command, args) {
  const { code, signal } = await run(command, args);
  if (signal) process.kill(process.pid, signal);
  return code === 0;
}

/** openapi.json has to match the code. */
async function isDescribed(before) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-openapi-"));
  try {
    const fresh = join(folder, "openapi.json");
    if (!(await passes(process.execPath, [join(ROOT, "dist", "cli", "openapi.js"), fresh]))) return false;
    if (readFileSync(fresh, "utf8") === before) return true;
    say("openapi.json was not up to date. The build has written it anew: look at it, and commit it.");
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
