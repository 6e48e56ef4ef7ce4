import { availableParallelism } from "node:os";
import { now } from "../environment.ts";
import { coldDelivery } from "./cold.ts";
import type { Contender } from "../contenders/contender.ts";
import { alternate, Servers, type Measurement, type Plan } from "../plan.ts";
import { ReaderPool } from "../clients/reader-pool.ts";
import { median, toRow, withoutPeer, type Row } from "../report/row.ts";

/** (b) Events a second at the readers of one turn, counted from the message on, and lost events. */
export const delivery: Measurement = {
  id: "b",
  title: "delivery to 1 and to 50 readers",
  async measure(plan) {
    const servers = new Servers();
    const pool = new ReaderPool(Math.max(2, Math.min(4, availableParallelism())));
    try {
      const one = await deliver(plan, servers, pool, {
        readers: 1,
        deltas: plan.quick ? 20_000 : 50_000,
        times: 2,
      });
      const fifty = await deliver(plan, servers, pool, {
        readers: 50,
        deltas: plan.quick ? 5_000 : 20_000,
        times: 4,
      });
      return [...one, ...fifty, ...(await coldDelivery(plan))];
    } finally {
      await pool.close();
      await servers.stop();
    }
  },
};

interface Load {
  readonly readers: number;
  readonly deltas: number;
  /** The target, as a multiple of the peer. */
  readonly times: number;
}

interface Delivered {
  readonly perSecond: number;
  readonly expected: number;
  readonly lost: number;
  readonly repeated: number;
}

async function deliver(plan: Plan, servers: Servers, pool: ReaderPool, load: Load): Promise<Row[]> {
  const rounds = await alternate(plan, plan.rounds, (contender) => flood(contender, servers, pool, load));
  const { own, peer, absent } = rounds;
  const who = load.readers === 1 ? "1 reader" : `${load.readers} readers`;
  const base = {
    id: "b",
    what: `${load.deltas.toLocaleString("en-US")} deltas to ${who}`,
    unit: "events/s",
    rounds: own.map((round) => round.perSecond),
  };
  const target = `≥ ${load.times}× peer`;
  const loss: Row = {
    id: "b",
    what: `lost or repeated, ${who}`,
    unit: "events",
    value: countWrong(own),
    target: "0",
    verdict: countWrong(own) === 0 ? "pass" : "miss",
    ...(peer.length === 0
      ? {}
      : { against: { what: `peer (${toShare(peer)} lost)`, value: countWrong(peer) } }),
  };
  if (peer.length === 0) {
    const row = toRow(base);
    return [absent === undefined ? row : withoutPeer(row, target, absent), loss];
  }
  const against = { what: "peer", value: median(peer.map((round) => round.perSecond)) };
  return [toRow({ ...base, against, target, reached: ({ ratio }) => ratio >= load.times }), loss];
}

async function flood(
  contender: Contender,
  servers: Servers,
  pool: ReaderPool,
  { readers, deltas }: Load,
): Promise<Delivered> {
  const session = await (await servers.of(contender)).openSession();
  const after = await session.head();
  const { url, headers } = session.stream;
  const task = {
    url,
    headers: { ...headers, "last-event-id": String(after) },
    after,
    readers,
    marker: session.endMark,
    silenceMs: 3_000,
  };
  let begun = 0;
  let turn: Promise<void> = Promise.resolve();
  const results = await pool.read(task, async () => {
    begun = now();
    turn = session.flood(deltas);
    turn.catch(() => {});
  });
  await turn;
  const expected = ((await session.head()) - after) * readers;
  const events = results.reduce((sum, result) => sum + result.events, 0);
  const endedAt = Math.max(...results.map((result) => result.endedAt));
  return {
    perSecond: (events / (endedAt - begun)) * 1000,
    expected,
    lost: expected - events,
    repeated: results.reduce((sum, result) => sum + result.repeated, 0),
  };
}

function countWrong(rounds: readonly Delivered[]): number {
  return rounds.reduce((sum, { lost, repeated }) => sum + Math.abs(lost) + repeated, 0);
}

function toShare(rounds: readonly Delivered[]): string {
  const lost = rounds.reduce((sum, round) => sum + round.lost, 0);
  const expected = rounds.reduce((sum, round) => sum + round.expected, 0);
  return `${((lost / expected) * 100).toFixed(1)} %`;
}
