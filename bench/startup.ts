import { besideBare } from "./bare.ts";
import { settledBytes } from "./memory.ts";
import { alternate, type Measurement } from "./plan.ts";
import { median, toRow, type Row } from "./row.ts";

const MB = 1024 * 1024;

/** (g) From the start of the program, as a user starts it, to its first answer; and what it takes while idle. */
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
