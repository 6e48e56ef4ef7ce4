import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { createBwrapProvider } from "../../src/sandbox/bwrap/provider.ts";
import type { HostSandbox } from "../../src/sandbox/port.ts";
import { withFolder } from "../environment.ts";
import type { Measurement } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";

const run = promisify(execFile);
const STARTS = 30;
const LINES = 300_000;
/** A typical line of an agent, about 180 bytes. */
const PRINT = `BEGIN { for (i = 0; i < ${LINES}; i++) printf "{\\"type\\":\\"item.delta\\",\\"n\\":%d,\\"text\\":\\"%s\\"}\\n", i, "${"word ".repeat(28)}" }`;

/** (j) A program in the sandbox against bare bubblewrap: its start, and the throughput of its output. */
export const sandboxStart: Measurement = {
  id: "j",
  title: "sandbox start, stdio inside and outside",
  async measure(plan) {
    const provider = createBwrapProvider({ root: "/nonexistent" });
    const { available, reason } = await provider.detect();
    if (!available) return [toAbsent(reason ?? "")];
    return withFolder(async (folder) => {
      const provider = createBwrapProvider({ root: join(folder, "sandboxes") });
      const fresh = await measureFresh(provider, plan.quick ? 5 : 15);
      const sandbox = await provider.create({ id: "bench" });
      try {
        const starts = await measureStarts(sandbox, plan.quick ? 10 : STARTS, plan.progress);
        const streams = await measureStreams(sandbox, folder, plan.rounds);
        return [toFreshRow(fresh, starts.bare), toStartRow(starts), toStreamRow(streams)];
      } finally {
        await sandbox.destroy();
      }
    });
  },
};

/** From nothing to the end of the first program, with the network namespace that later programs share. */
async function measureFresh(
  provider: ReturnType<typeof createBwrapProvider>,
  rounds: number,
): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const begun = performance.now();
    const sandbox = await provider.create({ id: `fresh-${round}` });
    await sandbox.exec("exec /bin/true");
    times.push(performance.now() - begun);
    await sandbox.destroy();
  }
  return times;
}

/** Alternating, so that a slow second of the machine affects both. */
export async function measureStarts(
  sandbox: HostSandbox,
  rounds: number,
  progress: (text: string) => void = () => {},
): Promise<{ own: number[]; bare: number[] }> {
  const own: number[] = [];
  const bare: number[] = [];
  await sandbox.exec("exec /bin/true");
  for (let round = 0; round < rounds; round++) {
    progress(`start ${round + 1} of ${rounds}`);
    own.push(await timed(() => sandbox.exec("exec /bin/true")));
    bare.push(await timed(() => run("bwrap", ["--ro-bind", "/", "/", "--unshare-all", "/bin/true"])));
  }
  return { own, bare };
}

/** Lines per second through the same pipe, printed inside and outside. */
export async function measureStreams(
  sandbox: HostSandbox,
  folder: string,
  rounds: number,
): Promise<{ inside: number[]; outside: number[] }> {
  const argv = ["awk", PRINT];
  const inside: number[] = [];
  const outside: number[] = [];
  for (let round = 0; round < rounds; round++) {
    inside.push(
      await linesPerSecond(folder, (wrapper) => sandbox.spawn({ launch: { argv, env: {} }, wrapper })),
    );
    outside.push(
      await linesPerSecond(folder, async ([program = "", ...args]) => {
        spawn(program, [...args, ...argv], { stdio: "ignore" }).unref();
      }),
    );
  }
  return { inside, outside };
}

async function linesPerSecond(
  folder: string,
  start: (wrapper: readonly string[]) => Promise<void>,
): Promise<number> {
  const pipe = join(folder, "pipe");
  await run("rm", ["-f", pipe]);
  await run("mkfifo", [pipe]);
  let lines = 0;
  let first = 0;
  const stream = createReadStream(pipe, { highWaterMark: 256 * 1024 });
  stream.on("data", (chunk) => {
    first ||= performance.now();
    for (let at = chunk.indexOf("\n"); at !== -1; at = chunk.indexOf("\n", at + 1)) lines++;
  });
  const ended = once(stream, "end");
  await start(["/bin/sh", "-c", '(exec "$@") > "$0"', pipe]);
  await ended;
  if (lines !== LINES) throw new Error(`${lines} of ${LINES} lines arrived`);
  return lines / ((performance.now() - first) / 1000);
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

function toStartRow({ own, bare }: { own: readonly number[]; bare: readonly number[] }): Row {
  return toRow({
    id: "j",
    what: "start of /bin/true in a sandbox that is there",
    unit: "ms",
    rounds: own,
    against: { what: "bare bwrap", value: median(bare) },
  });
}

function toFreshRow(rounds: readonly number[], bare: readonly number[]): Row {
  return toRow({
    id: "j",
    what: "a new sandbox, and /bin/true in it",
    unit: "ms",
    rounds,
    against: { what: "bare bwrap", value: median(bare) },
  });
}

function toStreamRow({ inside, outside }: { inside: readonly number[]; outside: readonly number[] }): Row {
  return toRow({
    id: "j",
    what: "lines/s from inside the sandbox",
    unit: "lines/s",
    rounds: inside,
    against: { what: "outside", value: median(outside) },
  });
}

function toAbsent(reason: string): Row {
  const note = `Not measured: ${reason}`;
  return { id: "j", what: "sandbox start", unit: "", value: Number.NaN, verdict: "unknown", note };
}
