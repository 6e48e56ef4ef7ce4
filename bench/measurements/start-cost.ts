import { execFile, spawn } from "node:child_process";
import { get, type ClientRequest } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { createBwrapProvider } from "../../src/sandbox/bwrap/provider.ts";
import { openCpuAccount, type CpuAccount } from "../cpu-account.ts";
import { endChild } from "../processes.ts";
import { call } from "../clients/http.ts";
import { ROOT, withFolder } from "../environment.ts";
import type { Measurement } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";
import { listeningUrl } from "../processes.ts";
import { endAgents } from "../contenders/sluice.ts";

const run = promisify(execFile);
/** How many starts a server needs until its code is compiled. */
const WARM_UP = 10;
/** Time for the work after the end of the turn. */
const SETTLE_MS = 500;

interface Sample {
  readonly cpuMs: number;
  readonly wallMs: number;
}

/** (s) The processor time of a new session's start with one turn, of all processes that take part in it. */
export const startCost: Measurement = {
  id: "s",
  title: "processor time of a start with one turn",
  async measure(plan) {
    const { available, reason = "" } = await createBwrapProvider({ root: "/nonexistent" }).detect();
    if (!available) return [toAbsent(reason)];
    const crowd = plan.quick ? 20 : 60;
    const quietStarts = plan.quick ? 10 : 20;
    return withFolder(async (folder) => {
      const bare: number[] = [];
      const quiet: Sample[] = [];
      const crowded: Sample[] = [];
      const server = await startServer(join(folder, "data"));
      try {
        for (let n = 0; n < WARM_UP; n++) await server.turn();
        await server.endAgents();
        for (let round = 0; round < 3; round++) {
          plan.progress(`round ${round + 1} of 3`);
          bare.push(await measureBare(quietStarts));
          quiet.push(await server.measure(quietStarts, "one by one"));
          crowded.push(await server.measure(crowd, "at once"));
        }
      } finally {
        await server.stop();
      }
      return toRows({ bare, quiet, crowded, crowd, how: server.how });
    });
  },
};

async function measureBare(count: number): Promise<number> {
  const account = await openCpuAccount("bare");
  const bwrap = "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all --die-with-parent";
  const loop = `n=$1; while [ "$n" -gt 0 ]; do ${bwrap} "$2" -e 0; n=$((n - 1)); done`;
  try {
    const before = account.usedMs();
    const [program = "", ...args] = [...account.prefix, "/bin/sh", "-c", loop, "sh"];
    await run(program, [...args, String(count), process.execPath]);
    return (account.usedMs() - before) / count;
  } finally {
    await account.close();
  }
}

interface StartServer {
  readonly how: string;
  turn(): Promise<void>;
  measure(count: number, manner: "one by one" | "at once"): Promise<Sample>;
  endAgents(): Promise<void>;
  stop(): Promise<void>;
}

async function startServer(data: string): Promise<StartServer> {
  const account: CpuAccount = await openCpuAccount("server");
  const serve = [join(ROOT, "bin/sluice"), "serve", "--port", "0", "--data", data, "--no-token"];
  const [program = "", ...args] = [...account.prefix, ...serve];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  const url = await listeningUrl(child);
  let sessions = 0;
  const turn = (): Promise<void> => startWithTurn(`${url}/v1/sessions/start-${++sessions}`);
  return {
    how: account.how,
    turn,
    async measure(count, manner) {
      const before = account.usedMs();
      const begun = performance.now();
      if (manner === "at once") await Promise.all(Array.from({ length: count }, turn));
      else for (let n = 0; n < count; n++) await turn();
      const wallMs = (performance.now() - begun) / count;
      await sleep(SETTLE_MS);
      const cpuMs = (account.usedMs() - before) / count;
      await endAgents(url);
      return { cpuMs, wallMs };
    },
    endAgents: () => endAgents(url),
    async stop() {
      await endAgents(url).catch(() => {});
      await endChild(child, "SIGTERM");
      await account.close();
    },
  };
}

const END_MARK = '"type":"turn.ended"';

/** A session, its first message, and one open stream until the end of that turn, without polling. */
async function startWithTurn(url: string): Promise<void> {
  await call("POST", url, { agent: "scripted" });
  await call("POST", `${url}/messages`, { message: '#script [{"say":"hi"}]' });
  let stream: ClientRequest | undefined;
  await new Promise<void>((resolve, reject) => {
    let seen = "";
    stream = get(`${url}/events/sse?extensions=true`, (response) => {
      response.setEncoding("latin1").on("data", (text: string) => {
        seen += text;
        if (seen.includes(END_MARK)) resolve();
      });
      response.on("end", () => reject(new Error(`the stream of ${url} has ended`))).on("error", reject);
    }).on("error", reject);
  });
  stream?.destroy();
}

function toRows(found: {
  bare: readonly number[];
  quiet: readonly Sample[];
  crowded: readonly Sample[];
  crowd: number;
  how: string;
}): Row[] {
  const against = { what: "bare bwrap and node -e 0", value: median(found.bare) };
  const row = (what: string, samples: readonly Sample[]): Row =>
    toRow({
      id: "s",
      what,
      unit: "ms CPU",
      rounds: samples.map(({ cpuMs }) => cpuMs),
      against,
      target: "≤ 1.5× bare",
      reached: ({ ratio }) => ratio <= 1.5,
      note: `All processes, counted ${found.how}.`,
    });
  return [
    row("a start with one turn, one by one", found.quiet),
    row(`a start with one turn, ${found.crowd} at once`, found.crowded),
    toRow({
      id: "s",
      what: `sessions started, ${found.crowd} at once`,
      unit: "sessions/s",
      rounds: found.crowded.map(({ wallMs }) => 1000 / wallMs),
    }),
  ];
}

function toAbsent(reason: string): Row {
  const note = `Not measured: ${reason}`;
  return { id: "s", what: startCost.title, unit: "", value: Number.NaN, verdict: "unknown", note };
}
