import { join } from "node:path";
import { ensureIsolation, ensureBuilt, ensureInstalled, endAs, ROOT, run, say } from "./setup.mjs";

const [flag = "--minutes", minutes = "5", ...names] = process.argv.slice(2);
if (flag !== "--minutes" || !(Number(minutes) > 0)) {
  say("usage: npm run fuzz -- --minutes N [FILE…], N being the minutes for each target, such as 0.5");
  process.exit(2);
}
await ensureInstalled();
await ensureIsolation();
await ensureBuilt();
const env = { ...process.env, SLUICE_FUZZ_SECONDS: String(Number(minutes) * 60) };
const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
const files = names.length === 0 ? ["test/fuzz"] : names;
endAs(await run(process.execPath, [vitest, "run", "--reporter=verbose", ...files], { env }));
