import { spawn } from "node:child_process";
import { join } from "node:path";
import { endChild } from "./end-child.ts";
import { freePort } from "./free-port.ts";
import { inParallel } from "./http.ts";
import { LeanConnection } from "./lean/connection.ts";
import { settledBytes } from "./memory.ts";
import { bundled, ROOT, withFolder } from "./place.ts";
import type { Plan } from "./plan.ts";
import { median, toRow, type Row } from "./row.ts";

const MB = 1024 * 1024;
const SESSIONS = 1_000;
const LANES = 8;
const PATIENCE_MS = 60_000;

/** What both are asked for, one after the other, each by itself and as a user starts it. */
interface Figures {
  readonly readyMs: number;
  readonly idleMb: number;
  readonly createMs: number;
  readonly createdMb: number;
}

/** Start, memory and idle sessions beside a bare Node server that answers the same requests from its memory. */
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
      row("f", `memory that ${SESSIONS} idle sessions bring`, "MB", ({ createdMb }) => createdMb),
    ],
  };
}

async function measure(command: readonly string[]): Promise<Figures> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const begun = performance.now();
  const child = spawn(process.execPath, [...command, "--port", String(port)], { stdio: "ignore" });
  try {
    const probe = await untilHealthy(url);
    const readyMs = performance.now() - begun;
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
    return { readyMs, idleMb: idle / MB, createMs, createdMb: (created - idle) / MB };
  } finally {
    await endChild(child, "SIGTERM");
  }
}

/** Asks from the first moment on, as whoever waits for a server does. */
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
