import { now } from "../environment.ts";
import type { BenchSession, RunningServer } from "../contenders/contender.ts";
import { call } from "../clients/http.ts";
import { settledBytes } from "../processes.ts";
import type { Measurement } from "../plan.ts";
import { ReaderPool } from "../clients/reader-pool.ts";
import { median, quantile, toRow } from "../report/row.ts";
import { anthropicView, universalView, type View } from "../clients/view.ts";

const STREAMS = 1_000;

/** (n) Idle streams: the memory of each, and the time of one event to all of them. */
export const idleStreams: Measurement = {
  id: "n",
  title: "1,000 idle streams of the anthropic dialect",
  async measure(plan) {
    const pool = new ReaderPool(2);
    const own: Told[] = [];
    const universal: Told[] = [];
    try {
      for (let round = 0; round < plan.rounds; round++) {
        plan.progress(`round ${round + 1} of ${plan.rounds}`);
        for (const [all, viewOf] of [
          [own, (session: BenchSession) => anthropicView(session, { deltas: false })],
          [universal, universalView],
        ] as const) {
          // A new server: memory that an earlier round freed would hide the use of this one.
          const server = await plan.sluice.start();
          try {
            all.push(await tellAll(server, pool, viewOf));
          } finally {
            await server.stop();
          }
        }
      }
    } finally {
      await pool.close();
    }
    const rowOf = (
      what: string,
      unit: string,
      pick: (told: Told) => number,
    ): Parameters<typeof toRow>[0] => ({
      id: "n",
      what,
      unit,
      rounds: own.map(pick),
      against: { what: "universal", value: median(universal.map(pick)) },
    });
    return [
      toRow({
        ...rowOf("memory of each stream", "KB", (told) => told.kb),
        target: "< 30 KB",
        reached: ({ value }) => value < 30,
      }),
      toRow(rowOf("one event to half of them", "ms", (told) => told.halfMs)),
      toRow({
        ...rowOf("one event to all of them", "ms", (told) => told.allMs),
        target: "< 250 ms",
        reached: ({ value }) => value < 250,
      }),
    ];
  },
};

interface Told {
  readonly kb: number;
  readonly halfMs: number;
  readonly allMs: number;
}

async function tellAll(
  server: RunningServer,
  pool: ReaderPool,
  viewOf: (session: BenchSession) => View,
): Promise<Told> {
  const session = await server.openSession();
  const view = viewOf(session);
  // The first streams load the shared code.
  await timeOneEvent(pool, session, { view, readers: 50 });
  await server.collect();
  const before = await settledBytes(server.pids());
  let bytes = 0;
  const { begun, endings } = await timeOneEvent(pool, session, {
    view,
    readers: STREAMS,
    async onConnected() {
      await server.collect();
      bytes = await settledBytes(server.pids());
    },
  });
  return {
    kb: (bytes - before) / STREAMS / 1024,
    halfMs: quantile(endings, 0.5) - begun,
    allMs: Math.max(...endings) - begun,
  };
}

/** Opens the streams, causes one event, and returns the arrival time at each stream. */
async function timeOneEvent(
  pool: ReaderPool,
  session: BenchSession,
  { view, readers, onConnected }: { view: View; readers: number; onConnected?: () => Promise<void> },
): Promise<{ begun: number; endings: number[] }> {
  const after = await session.head();
  let begun = 0;
  const results = await pool.read(
    view.task({ after, readers, marker: '"type":"session.updated"' }),
    async () => {
      await onConnected?.();
      begun = now();
      await rename(session);
    },
  );
  if (!results.every((result) => result.sawEnd)) throw new Error("a stream did not get the event");
  return { begun, endings: results.map((result) => result.endedAt) };
}

let names = 0;

function rename({ stream }: BenchSession): Promise<unknown> {
  const { origin, pathname } = new URL(stream.url);
  const url = `${origin}/anthropic/v1/sessions/sesn_${pathname.split("/")[3]}`;
  names += 1;
  const headers = { "anthropic-beta": "managed-agents-2026-04-01" };
  return call("POST", url, { title: `title ${names}` }, headers);
}
