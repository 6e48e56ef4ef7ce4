import { inParallel } from "../clients/http.ts";
import { LeanConnection } from "../clients/lean-connection.ts";
import { bundled, freePort, ROOT, withFolder } from "../environment.ts";
import { alternate, type Measurement, type Plan } from "../plan.ts";
import { endChild, listeningUrl, settledBytes } from "../processes.ts";
import { median, type Row, toRow } from "../report/row.ts";
import { spawn } from "node:child_process";
import { join } from "node:path";

const MB = 1024 * 1024;

/** (g) From the start of the program, as a user starts it, to its first answer; and its idle memory. */
export const startup: Measurement = {
  id: "g",
  title: "start to ready, idle memory",
  async measure(plan) {
    const { own, peer, absent } = await alternate(plan, plan.rounds * 2, async (contender) => {
      const server = await contender.start({ plainly: true });
      try {
        return { ms: server.readyMs, mb: (await settledBytes(server.pids())) / MB };
      } finally {
        await server.stop();
      }
    });
    const against = (
      pick: (round: (typeof peer)[number]) => number,
    ): Partial<Pick<Row, "against" | "note">> => {
      if (peer.length > 0) return { against: { what: "peer", value: median(peer.map(pick)) } };
      return absent === undefined ? {} : { note: absent };
    };
    return [
      ...(await besideBare(plan)).start,
      toRow({
        id: "g",
        what: "start to ready",
        unit: "ms",
        rounds: own.map((round) => round.ms),
        ...against((round) => round.ms),
      }),
      toRow({
        id: "g",
        what: "idle memory",
        unit: "MB",
        rounds: own.map((round) => round.mb),
        ...against((round) => round.mb),
        ...(peer.length > 0 ? { note: "The peer's is with its launcher, which stays resident." } : {}),
      }),
    ];
  },
};

const SESSIONS = 1_000;
const LANES = 8;
const PATIENCE_MS = 60_000;

/** The figures of one server, started alone and as a user starts it. */
interface Figures {
  readonly readyMs: number;
  readonly idleMb: number;
  readonly createMs: number;
  /** All of its memory after that. */
  readonly createdMb: number;
}

/** Start, memory and idle sessions against a bare Node server that answers the same requests from memory. */
export async function besideBare(plan: Plan): Promise<{ start: Row[]; idle: Row[] }> {
  const own: Figures[] = [];
  const bare: Figures[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    plan.progress(`beside a bare server, round ${round + 1} of ${plan.rounds}`);
    own.push(
      await withFolder((data) => measure([join(ROOT, "bin/sluice"), "serve", "--no-token", "--data", data])),
    );
    bare.push(await measure([bundled("bare-server.js")]));
  }
  const row = (id: string, what: string, unit: string, pick: (figures: Figures) => number): Row =>
    toRow({
      id,
      what: `cold: ${what}`,
      unit,
      rounds: own.map(pick),
      against: { what: "bare Node server", value: median(bare.map(pick)) },
      target: "≤ 2× bare",
      reached: ({ ratio }) => ratio <= 2,
    });
  const { target: _, verdict: __, ...idleMemory } = row("g", "idle memory", "MB", ({ idleMb }) => idleMb);
  return {
    start: [row("g", "start to healthy", "ms", ({ readyMs }) => readyMs), idleMemory],
    idle: [
      row("f", `make ${SESSIONS} idle sessions`, "ms", ({ createMs }) => createMs),
      row(
        "f",
        `memory that ${SESSIONS} idle sessions bring`,
        "MB",
        ({ createdMb, idleMb }) => createdMb - idleMb,
      ),
      row("f", `all memory of a server with ${SESSIONS} idle sessions`, "MB", ({ createdMb }) => createdMb),
    ],
  };
}

async function measure(command: readonly string[]): Promise<Figures> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const begun = performance.now();
  const child = spawn(process.execPath, [...command, "--port", String(port)], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const listening = listeningUrl(child);
  listening.catch(() => {});
  try {
    const probe = await untilHealthy(url);
    const readyMs = performance.now() - begun;
    // A server may be healthy before all of its code is loaded: that is no memory of a session.
    await listening;
    const pids = [child.pid ?? 0];
    const idle = await settledBytes(pids);
    const lanes = await Promise.all(Array.from({ length: LANES }, () => LeanConnection.open(url)));
    const createBegun = performance.now();
    await inParallel(SESSIONS, LANES, async (index) => {
      const lane = lanes.pop();
      await lane?.post(`/v1/sessions/bench-${index}`, '{"agent":"scripted"}');
      if (lane) lanes.push(lane);
    });
    const createMs = performance.now() - createBegun;
    const created = await settledBytes(pids);
    for (const connection of [probe, ...lanes]) connection.close();
    return { readyMs, idleMb: idle / MB, createMs, createdMb: created / MB };
  } finally {
    await endChild(child, "SIGTERM");
  }
}

/** Connects again and again from the start on. */
async function untilHealthy(url: string): Promise<LeanConnection> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      const connection = await LeanConnection.open(url);
      await connection.get("/v1/health");
      return connection;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }
}
