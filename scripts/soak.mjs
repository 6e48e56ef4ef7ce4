import { join } from "node:path";
import { parseArgs } from "node:util";
import { ensureAgents } from "./agents.mjs";
import { endAs, ensureBuilt, ensureInstalled, ensureIsolation, ROOT, run, say } from "./setup.mjs";

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "5" }, seed: { type: "string" } },
});
if (!(Number(values.minutes) > 0)) {
  say("usage: npm run soak -- --minutes N [--seed S], such as --minutes 0.5");
  process.exit(2);
}
await ensureInstalled();
await ensureIsolation();
await ensureBuilt();
const env = {
  ...process.env,
  PATH: await ensureAgents(),
  ...(process.stdout.isTTY ? { SLUICE_SOAK_TERMINAL: "1" } : {}),
  SLUICE_SOAK_MINUTES: values.minutes,
  SLUICE_SOAK_SEED: values.seed ?? String(Date.now() % 2 ** 31),
};
const vitest = join(ROOT, "node_modules", "vitest", "vitest.mjs");
endAs(await run(process.execPath, [vitest, "run", "--reporter=verbose", "test/soak"], { env }));
