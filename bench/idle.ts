import { settledBytes } from "./memory.ts";
import { alternate, type Measurement } from "./plan.ts";
import { median, toRow, type Row } from "./row.ts";

const SESSIONS = 1_000;

/** (f) Sessions that nobody has spoken to: how long they take to make, and what they cost to have. */
export const idle: Measurement = {
  id: "f",
  title: "1,000 idle sessions",
  async measure(plan) {
    const { own, peer, absent } = await alternate(plan, plan.rounds, async (contender) => {
      const server = await contender.start();
      try {
        await server.collect();
        const before = await settledBytes(server.pids());
        const begun = performance.now();
        await server.createIdle(SESSIONS);
        const seconds = (performance.now() - begun) / 1000;
        await server.collect();
        const first = await settledBytes(server.pids());
        await server.createIdle(SESSIONS);
        await server.collect();
        const second = await settledBytes(server.pids());
        return { seconds, kb: (first - before) / SESSIONS / 1024, more: (second - first) / SESSIONS / 1024 };
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

const PEER_NOTE = "The peer's sessions live in one agent process, whose memory is not counted.";
