import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endAs, ensureBuilt, ensureInstalled, ensureIsolation, ROOT, run, say } from "./setup.mjs";

const given = process.argv.slice(2);
await ensureInstalled();
await ensureIsolation();
await ensureBuilt();
const sluice = join(ROOT, "bin", "sluice");
endAs(given.length > 0 ? await run(process.execPath, [sluice, "run", ...given]) : await demonstrate());

/** A first look: the scripted agent plans, thinks, runs a command, writes a file and answers. */
async function demonstrate() {
  const folder = mkdtempSync(join(tmpdir(), "sluice-demo-"));
  const session = `demo-${Date.now().toString(36)}`;
  say(`the agent works in ${folder}`);
  const ended = await run(process.execPath, [
    sluice,
    "run",
    // Also where a key of a real agent is set: a first look costs nothing.
    "--agent",
    "scripted",
    "--cwd",
    folder,
    "--session",
    session,
    "Show me what you can do.",
  ]);
  if (ended.code !== 0) return ended;
  process.stdout.write(
    `\nTry next:\n  ./bin/sluice tail ${session}\n  ./bin/sluice serve    # in one terminal\n  ./bin/sluice open ${session}    # in another: the page of this session\n`,
  );
  return ended;
}
