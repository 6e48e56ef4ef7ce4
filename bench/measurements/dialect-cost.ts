import { now } from "../environment.ts";
import type { BenchSession } from "../contenders/contender.ts";
import { cpuMs } from "../processes.ts";
import { Servers, type Measurement, type Plan } from "../plan.ts";
import { ReaderPool } from "../clients/reader-pool.ts";
import { median, toRow, type Row } from "../report/row.ts";
import { anthropicView, universalView, type View } from "../clients/view.ts";

/** (m) The same turn to one reader in each dialect: the cost of the dialect alone. */
export const dialectCost: Measurement = {
  id: "m",
  title: "the anthropic dialect against the universal one",
  async measure(plan) {
    const servers = new Servers();
    const pool = new ReaderPool(1);
    try {
      const server = await servers.of(plan.sluice);
      const session = await server.openSession();
      const views = {
        universal: universalView(session),
        deltas: anthropicView(session, { deltas: true }),
        whole: anthropicView(session, { deltas: false }),
      };
      const run = (view: View): Promise<Cost> => readTurn(plan, pool, { session, view, pids: server.pids() });
      const costs: Record<keyof typeof views, Cost[]> = { universal: [], deltas: [], whole: [] };
      // The first round warms up. The views alternate, so that a slow minute of the machine affects all.
      for (let round = -1; round < plan.rounds; round++) {
        plan.progress(`round ${Math.max(round, 0) + 1} of ${plan.rounds}`);
        for (const name of Object.keys(views) as (keyof typeof views)[]) {
          const cost = await run(views[name]);
          if (round >= 0) costs[name].push(cost);
        }
      }
      return toRows(costs);
    } finally {
      await pool.close();
      await servers.stop();
    }
  },
};

interface Cost {
  readonly perSecond: number;
  readonly cpuMicros: number;
  /** Missing or repeated deltas. Without meaning for a view without deltas. */
  readonly wrong: number;
}

async function readTurn(
  plan: Plan,
  pool: ReaderPool,
  { session, view, pids }: { session: BenchSession; view: View; pids: readonly number[] },
): Promise<Cost> {
  const deltas = plan.quick ? 20_000 : 50_000;
  const after = await session.head();
  const before = cpuMs(pids);
  let begun = 0;
  const [result] = await pool.read(view.task({ after, readers: 1 }), async () => {
    begun = now();
    session.flood(deltas).catch(() => {});
  });
  const cpu = cpuMs(pids) - before;
  const events = (await session.head()) - after;
  if (!result?.sawEnd) throw new Error(`the ${view.name} reader never saw the end of its turn`);
  return {
    perSecond: (events / (result.endedAt - begun)) * 1000,
    cpuMicros: (cpu / events) * 1000,
    wrong: Math.abs(deltas - result.tallied),
  };
}

function toRows({ universal, deltas, whole }: Record<"universal" | "deltas" | "whole", Cost[]>): Row[] {
  const wrong = deltas.reduce((sum, cost) => sum + cost.wrong, 0);
  const rate = { what: "universal", value: median(perSecond(universal)) };
  const micros = { what: "universal", value: median(cpu(universal)) };
  return [
    toRow({
      id: "m",
      what: "one turn to 1 reader, with event_deltas",
      unit: "events/s",
      rounds: perSecond(deltas),
      against: rate,
      target: "≥ 0.5× universal",
      reached: ({ ratio }) => ratio >= 0.5,
    }),
    toRow({
      id: "m",
      what: "the same, whole messages only",
      unit: "events/s",
      rounds: perSecond(whole),
      against: rate,
      target: "≥ 0.8× universal",
      reached: ({ ratio }) => ratio >= 0.8,
      note: "Events of the log that a reader is past, in a second; the agent and the commit are part of it.",
    }),
    toRow({
      id: "m",
      what: "server CPU per event, with event_deltas",
      unit: "µs",
      rounds: cpu(deltas),
      against: micros,
      target: "≤ 2× universal",
      reached: ({ ratio }) => ratio <= 2,
    }),
    toRow({
      id: "m",
      what: "server CPU per event, whole messages only",
      unit: "µs",
      rounds: cpu(whole),
      against: micros,
    }),
    {
      id: "m",
      what: "deltas lost or repeated",
      unit: "events",
      value: wrong,
      target: "0",
      verdict: wrong === 0 ? "pass" : "miss",
    },
  ];
}

function perSecond(costs: readonly Cost[]): number[] {
  return costs.map((cost) => cost.perSecond);
}

function cpu(costs: readonly Cost[]): number[] {
  return costs.map((cost) => cost.cpuMicros);
}
