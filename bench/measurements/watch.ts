import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { createWatcher } from "../../src/sandbox/watch/watcher.ts";
import { withFolder } from "../environment.ts";
import type { Measurement, Plan } from "../plan.ts";
import { median, quantile, toRow, withoutPeer, type Row } from "../report/row.ts";

const CHOKIDAR = "4.0.3";
const FOLDERS = 50;
const FILES = 5_000;
const GIVE_UP_MS = 15_000;

/** (w) File events: the latency of one, the processor time of a burst, and the missed changes. */
export const watching: Measurement = {
  id: "w",
  title: "file events",
  async measure(plan) {
    if ("absent" in plan.peer) return compare(plan, { absent: plan.peer.absent });
    return withFolder(async (folder) => compare(plan, await installChokidar(folder)));
  },
};

/** Calls back with the path of every change. Resolves once it watches, with the function that stops it. */
type StartWatching = (folder: string, onChange: (path: string) => void) => Promise<() => Promise<void>>;

interface Round {
  readonly readyMs: number;
  readonly latencyMs: number;
  readonly cpuMs: number;
  readonly missed: number;
}

async function compare(plan: Plan, peer: { start: StartWatching } | { absent: string }): Promise<Row[]> {
  const own: Round[] = [];
  const theirs: Round[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    plan.progress(`round ${round + 1} of ${plan.rounds}`);
    own.push(await watchOnce(startOwn, plan));
    if ("start" in peer) theirs.push(await watchOnce(peer.start, plan));
  }
  const row = (
    what: string,
    unit: string,
    pick: (round: Round) => number,
    target?: { text: string; reached: (row: { value: number; ratio: number }) => boolean },
  ): Row => {
    const base = { id: "w", what, unit, rounds: own.map(pick) };
    if (theirs.length === 0) {
      const alone = toRow(base);
      return target && "absent" in peer ? withoutPeer(alone, target.text, peer.absent) : alone;
    }
    const against = { what: `chokidar ${CHOKIDAR}`, value: median(theirs.map(pick)) };
    return toRow({ ...base, against, ...(target ? { target: target.text, reached: target.reached } : {}) });
  };
  const missed = own.reduce((sum, each) => sum + each.missed, 0);
  return [
    row("watch a tree of 6,000 files", "ms", ({ readyMs }) => readyMs),
    row("write to file event, p50", "ms", ({ latencyMs }) => latencyMs),
    row(`CPU for ${FILES} files created, appended to, removed`, "ms", ({ cpuMs }) => cpuMs, {
      text: "≤ 0.5× chokidar",
      reached: ({ ratio }) => ratio <= 0.5,
    }),
    {
      id: "w",
      what: "missed changes",
      unit: "events",
      value: missed,
      target: "0",
      verdict: missed === 0 ? "pass" : "miss",
      ...(theirs.length === 0
        ? {}
        : {
            against: {
              what: `chokidar ${CHOKIDAR}`,
              value: theirs.reduce((sum, each) => sum + each.missed, 0),
            },
          }),
    },
  ];
}

function watchOnce(start: StartWatching, plan: Plan): Promise<Round> {
  return withFolder(async (folder) => {
    await fill(folder);
    const reported = new Reported();
    const begun = performance.now();
    const stop = await start(folder, (path) => reported.add(path));
    const readyMs = performance.now() - begun;
    try {
      const latencyMs = await timeWrites(folder, reported, plan.quick ? 30 : 100);
      return { readyMs, latencyMs, ...(await burst(folder, reported)) };
    } finally {
      await stop();
    }
  });
}

const startOwn: StartWatching = async (folder, onChange) => {
  const watcher = createWatcher({ folder });
  const controller = new AbortController();
  await watcher.ready;
  const follow = async (): Promise<void> => {
    for (;;) {
      await watcher.moved({ signal: controller.signal });
      for (const { path } of watcher.take()) onChange(path);
    }
  };
  const following = follow().catch(() => {});
  return async () => {
    controller.abort();
    await following;
    await watcher.stop();
  };
};

/** As much of chokidar as is used here. */
interface Chokidar {
  watch(
    folder: string,
    options: { cwd: string; ignoreInitial: boolean },
  ): {
    on(event: "all", listener: (event: string, path: string) => void): unknown;
    once(event: "ready", listener: () => void): unknown;
    close(): Promise<void>;
  };
}

async function installChokidar(folder: string): Promise<{ start: StartWatching } | { absent: string }> {
  try {
    await writeFile(join(folder, "package.json"), '{"private":true}');
    const args = ["install", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"];
    await promisify(execFile)("npm", [...args, `chokidar@${CHOKIDAR}`], { cwd: folder, timeout: 120_000 });
    const entry = pathToFileURL(join(folder, "node_modules/chokidar/esm/index.js")).href;
    const chokidar = (await import(entry)) as Chokidar;
    return { start: (watched, onChange) => startChokidar(chokidar, watched, onChange) };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return { absent: `chokidar could not be installed: ${text.replaceAll(/\s+/g, " ").slice(0, 200)}` };
  }
}

async function startChokidar(
  chokidar: Chokidar,
  folder: string,
  onChange: (path: string) => void,
): Promise<() => Promise<void>> {
  const watcher = chokidar.watch(".", { cwd: folder, ignoreInitial: true });
  await new Promise<void>((resolve) => watcher.once("ready", resolve));
  watcher.on("all", (event, path) => {
    if (!event.endsWith("Dir")) onChange(path);
  });
  return () => watcher.close();
}

async function fill(folder: string): Promise<void> {
  for (let index = 0; index < 100; index++) {
    await mkdir(join(folder, `old/${index}`), { recursive: true });
    for (let file = 0; file < 60; file++) await writeFile(join(folder, `old/${index}/${file}`), "x");
  }
}

async function timeWrites(folder: string, reported: Reported, writes: number): Promise<number> {
  const times: number[] = [];
  for (let index = 0; index < writes; index++) {
    const path = `old/${index % 100}/written-${index}`;
    const begun = performance.now();
    await writeFile(join(folder, path), "x");
    if (await reported.until(() => reported.has(path))) times.push(performance.now() - begun);
    // Each write is the first after a quiet time.
    await sleep(30);
  }
  return quantile(times, 0.5);
}

/** Another process writes, so this process's own time is the watcher's. */
async function burst(folder: string, reported: Reported): Promise<{ cpuMs: number; missed: number }> {
  const each = `const fs = require("node:fs"); for (let i = 0; i < ${FILES}; i++) { const d = "new/" + (i % ${FOLDERS}) + "/a/b/" + (i % 3); const f = d + "/" + i;`;
  const scripts = [
    `${each} fs.mkdirSync(d, { recursive: true }); fs.writeFileSync(f, "x"); }`,
    `${each} fs.appendFileSync(f, "y"); }`,
    `require("node:fs").rmSync("new", { recursive: true })`,
  ];
  const before = process.cpuUsage();
  let missed = 0;
  for (const script of scripts) {
    reported.clear();
    const child = spawn(process.execPath, ["-e", script], { cwd: folder, stdio: "ignore" });
    await once(child, "close");
    await reported.until(() => reported.size >= FILES);
    missed += FILES - reported.size;
    // Work after the last change belongs to this burst.
    await sleep(200);
  }
  const { user, system } = process.cpuUsage(before);
  return { cpuMs: (user + system) / 1000, missed };
}

/** The paths that a watcher has reported. */
class Reported {
  readonly #paths = new Set<string>();
  #wake: () => void = () => {};

  get size(): number {
    return this.#paths.size;
  }

  has(path: string): boolean {
    return this.#paths.has(path);
  }

  add(path: string): void {
    this.#paths.add(path);
    this.#wake();
  }

  clear(): void {
    this.#paths.clear();
  }

  /** False where it does not come true in time. */
  until(isTrue: () => boolean): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => end(false), GIVE_UP_MS);
      const end = (came: boolean): void => {
        clearTimeout(timer);
        this.#wake = () => {};
        resolve(came);
      };
      this.#wake = () => {
        if (isTrue()) end(true);
      };
      this.#wake();
    });
  }
}
