import { besideBare } from "./startup.ts";
import type { RunningServer } from "../contenders/contender.ts";
import { inParallel } from "../clients/http.ts";
import { settledBytes } from "../processes.ts";
import { alternate, type Measurement } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";

const SESSIONS = 1_000;
const KB = SESSIONS * 1024;

/** The first requests grow the heap, which then stays: they are not the cost of a session. */
const PROBES = 4_000;

/** (f) Sessions without a message: the time to make them, and their memory. */
export const idle: Measurement = {
  id: "f",
  title: "1,000 idle sessions",
  async measure(plan) {
    const { own, peer, absent } = await alternate(plan, plan.rounds, async (contender) => {
      const server = await contender.start();
      try {
        const started = await memoryOf(server);
        await inParallel(PROBES, 8, () => server.probe());
        const before = await memoryOf(server);
        const begun = performance.now();
        await server.createIdle(SESSIONS);
        const seconds = (performance.now() - begun) / 1000;
        const first = await memoryOf(server);
        await server.createIdle(SESSIONS);
        const second = await memoryOf(server);
        return { seconds, once: before - started, kb: (first - before) / KB, more: (second - first) / KB };
      } finally {
        await server.stop();
      }
    });
    const against = (
      pick: (round: (typeof peer)[number]) => number,
    ): Partial<Pick<Row, "against" | "note">> => {
      if (peer.length > 0)
        return { against: { what: "peer", value: median(peer.map(pick)), note: PEER_NOTE } };
      return absent === undefined ? {} : { note: absent };
    };
    return [
      ...(await besideBare(plan)).idle,
      toRow({
        id: "f",
        what: `make ${SESSIONS} idle sessions`,
        unit: "s",
        rounds: own.map((round) => round.seconds),
        ...against((round) => round.seconds),
        target: "< 2 s",
        reached: ({ value }) => value < 2,
      }),
      toRow({
        id: "f",
        what: `memory of the first ${PROBES} answers of any kind`,
        unit: "MB",
        rounds: own.map((round) => round.once / 1024 / 1024),
        ...against((round) => round.once / 1024 / 1024),
      }),
      toRow({
        id: "f",
        what: "memory of each, the first 1000",
        unit: "KB",
        rounds: own.map((round) => round.kb),
        ...against((round) => round.kb),
        target: "< 20 KB",
        reached: ({ value }) => value < 20,
      }),
      toRow({
        id: "f",
        what: "memory of each, the next 1000",
        unit: "KB",
        rounds: own.map((round) => round.more),
        ...against((round) => round.more),
        target: "< 20 KB",
        reached: ({ value }) => value < 20,
      }),
    ];
  },
};

async function memoryOf(server: RunningServer): Promise<number> {
  await server.collect();
  return settledBytes(server.pids());
}

const PEER_NOTE = "The peer's sessions live in one agent process, whose memory is not counted.";
