import { spawnSync } from "node:child_process";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { createScriptedModel } from "../../src/model/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { startServer } from "../support/server.ts";
import { Chance } from "./chance.ts";
import { type Client, drive, driveOnce, type Tally } from "./clients.ts";
import { makeDisk } from "./disk.ts";
import { type Counts, KILLS, strikeUntil } from "./faults.ts";
import { SETTLE_MS } from "./insist.ts";
import { endAll } from "./processes.ts";
import { checkDescriptors, checkNothingLeft } from "./remains.ts";

const ALONE_MINUTES = process.env["SLUICE_SOAK_MINUTES"];
const IS_CI = process.env["CI"] === "true";
/** `npm run soak -- --minutes N [--seed S]` has the machine for itself; among other tests it is short, but for CI. */
const MINUTES = Number(ALONE_MINUTES ?? (IS_CI ? 5 : 0.1));
const SEED = Number(process.env["SLUICE_SOAK_SEED"] ?? 1);
/** How many of the clients drive the scripted agent, and how many a real CLI. */
const CLIENTS = ALONE_MINUTES === undefined ? { scripted: 3, real: 1 } : { scripted: 8, real: 2 };
const REAL: readonly AgentId[] = ["claude", "codex", "opencode", "gemini"];

// It finds the processes to kill in /proc. CI never skips it.
const isIsolated = spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "true"]).status === 0;

it.skipIf(!isIsolated && !IS_CI)(
  `nothing is lost, doubled or left in ${MINUTES} minutes of faults (skipped where bwrap does not run)`,
  // A finding is printed either way. In CI it must not stop a change that has nothing to do with it.
  { retry: IS_CI ? 1 : 0, timeout: MINUTES * 60_000 + 3 * SETTLE_MS },
  async () => {
    console.log(`seed ${SEED}: --seed ${SEED} repeats the choices`);
    const disk = await makeDisk();
    const clock = join(disk.data, "..", "clock");
    const server = await startServer({
      data: disk.data,
      env: {
        NODE_OPTIONS: `--import ${pathToFileURL(join(import.meta.dirname, "../support/clock.mjs")).href}`,
        SLUICE_TEST_CLOCK: clock,
      },
    });
    const model = await createScriptedModel();
    const tally: Tally = { sessions: 0, inputs: 0, frames: {}, findings: [], sandboxes: new Set() };
    const until = Date.now() + MINUTES * 60_000;
    const isOver = (): boolean => Date.now() > until;
    const journal: string[] = [];
    const doing = new Map<string, string>();
    const agents = REAL.filter((id) => requireAgent(id).path !== undefined);
    if (agents.length < REAL.length)
      console.warn(`of the real CLIs only these are on PATH: ${agents.join()}`);
    const toClient = (n: number): Client => ({
      server,
      chance: new Chance(SEED + n + 1),
      name: `s${n}`,
      agents: n < CLIENTS.scripted ? [] : agents.slice(n % 2).concat(agents.slice(0, n % 2)),
      modelUrl: model.url,
      tally,
      journal,
      doing,
      isOver,
    });
    const counts: Counts = {};
    const sum = (): string => {
      const kills = KILLS.reduce((all, fault) => all + (counts[fault] ?? 0), 0);
      return `${kills} kills; ${tally.sessions} sessions, ${tally.inputs} inputs, ${tally.findings.length} findings; faults: ${JSON.stringify(counts)}; frames: ${JSON.stringify(tally.frames)}`;
    };
    const endProgress = showProgress(() => `${Math.ceil((until - Date.now()) / 1_000)} s: ${sum()}`);
    const stuck = setTimeout(
      () => console.log(`STUCK: ${JSON.stringify([...doing])}; ${sum()}; ${server.stderr().slice(-4_000)}`),
      MINUTES * 60_000 + 2 * SETTLE_MS,
    );
    try {
      const clients = Array.from({ length: CLIENTS.scripted + CLIENTS.real }, (_, n) => drive(toClient(n)));
      await strikeUntil(isOver, { server, disk, clock, journal }, { seed: SEED, counts, doing });
      await Promise.all(clients);
      endProgress();
      console.log(sum());
      expect(tally.findings).toEqual([]);
      let undisturbed = clients.length;
      await checkDescriptors(server, () => driveOnce({ ...toClient(undisturbed++), agents: [] }));
      await checkNothingLeft(server, tally.sandboxes);
    } finally {
      clearTimeout(stuck);
      await server.kill();
      await endAll(disk.data);
      await model.close();
      disk.remove();
    }
  },
);

/** On a terminal; a pipe stays quiet. Answers how it ends. */
function showProgress(words: () => string): () => void {
  if (!process.env["SLUICE_SOAK_TERMINAL"]) return () => {};
  const screen = createWriteStream("/dev/tty");
  const timer = setInterval(() => screen.write(`\r\u001b[K${words()}`), 1_000);
  return () => {
    clearInterval(timer);
    screen.end("\n");
  };
}
