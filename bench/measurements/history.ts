import { get } from "node:http";
import type { BenchSession, RunningServer } from "../contenders/contender.ts";
import { call } from "../clients/http.ts";
import type { Measurement } from "../plan.ts";
import { ReaderPool } from "../clients/reader-pool.ts";
import { median, toRow } from "../report/row.ts";
import { SequenceCounter } from "../clients/stream-counters.ts";
import { untilIdle } from "../contenders/sluice.ts";

const LONG = 100_000;
const SHORT = 1_000;
const PAGE = 100;
const BEHIND = 50;

/** (d) A long history read from its beginning. */
export const replay: Measurement = {
  id: "d",
  title: "replay of 100,000 events",
  async measure(plan) {
    const pool = new ReaderPool(1);
    const server = await plan.sluice.start();
    try {
      const { session, head } = await withHistory(server, LONG);
      const perSecond: number[] = [];
      const megabytes: number[] = [];
      let wrong = 0;
      for (let round = 0; round < plan.rounds; round++) {
        plan.progress(`round ${round + 1} of ${plan.rounds}`);
        const task = { ...session.stream, after: 0, readers: 1, until: head, silenceMs: 5_000 };
        const [result] = await pool.read({ ...task, headers: { "last-event-id": "0" } });
        if (!result) continue;
        const seconds = (result.endedAt - result.startedAt) / 1000;
        perSecond.push(result.events / seconds);
        megabytes.push(result.bytes / seconds / 1e6);
        wrong += Math.abs(head - result.events) + result.repeated;
      }
      return [
        toRow({
          id: "d",
          what: `replay of ${head.toLocaleString("en-US")} events`,
          unit: "events/s",
          rounds: perSecond,
        }),
        toRow({ id: "d", what: "the same in bytes", unit: "MB/s", rounds: megabytes }),
        {
          id: "d",
          what: "lost or repeated",
          unit: "events",
          value: wrong,
          target: "0",
          verdict: wrong === 0 ? "pass" : "miss",
        },
      ];
    } finally {
      await pool.close();
      await server.stop();
    }
  },
};

/** (e) The same page and the same resume with a hundred times the history. */
export const history: Measurement = {
  id: "e",
  title: "page and resume at 1k and 100k events",
  async measure(plan) {
    const server = await plan.sluice.start();
    try {
      const short = await withHistory(server, SHORT);
      const long = await withHistory(server, LONG);
      const pages = plan.quick ? 60 : 200;
      const resumes = plan.quick ? 20 : 60;
      const page = { short: [] as number[], long: [] as number[] };
      const resume = { short: [] as number[], long: [] as number[] };
      for (let round = 0; round <= plan.rounds; round++) {
        plan.progress(`round ${round} of ${plan.rounds}`);
        for (const [size, filled] of [
          ["short", short],
          ["long", long],
        ] as const) {
          const pageMs = await timePages(filled, pages);
          const resumeMs = await timeResumes(filled, resumes);
          // The first round warms up.
          if (round === 0) continue;
          page[size].push(pageMs);
          resume[size].push(resumeMs);
        }
      }
      const flat = { unit: "ms", target: "≤ 2× of 1k", reached: flatEnough };
      return [
        toRow({
          id: "e",
          what: `page of ${PAGE} at 100k`,
          ...flat,
          rounds: page.long,
          against: atShort(page.short),
        }),
        toRow({
          id: "e",
          what: `resume ${BEHIND} behind the head at 100k`,
          ...flat,
          rounds: resume.long,
          against: atShort(resume.short),
        }),
      ];
    } finally {
      await server.stop();
    }
  },
};

interface Filled {
  readonly session: BenchSession;
  readonly url: string;
  readonly head: number;
}

async function withHistory(server: RunningServer, events: number): Promise<Filled> {
  const session = await server.openSession();
  const url = session.prompt.url.replace(/\/messages$/, "");
  const missing = events - (await session.head());
  if (missing > 0) {
    await session.flood(missing);
    await untilIdle(url);
  }
  return { session, url, head: await session.head() };
}

async function timePages({ url, head }: Filled, times: number): Promise<number> {
  const taken: number[] = [];
  for (let n = 0; n < times; n++) {
    const after = Math.floor((((n * 37) % 100) / 100) * (head - PAGE));
    const begun = performance.now();
    const { text } = await call("GET", `${url}/events?offset=${after}&limit=${PAGE}&extensions=true`);
    taken.push(performance.now() - begun);
    if (!text.includes(`"sequence":${after + PAGE},`))
      throw new Error(`the page behind ${after} is not whole`);
  }
  return median(taken);
}

async function timeResumes({ session, head }: Filled, times: number): Promise<number> {
  const taken: number[] = [];
  for (let n = 0; n < times; n++) taken.push(await timeResume(session.stream.url, head));
  return median(taken);
}

function timeResume(url: string, head: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const counter = new SequenceCounter(head - BEHIND);
    const begun = performance.now();
    const request = get(url, { headers: { "last-event-id": String(head - BEHIND) } }, (response) => {
      response.on("data", (chunk: Buffer) => {
        counter.push(chunk);
        if (counter.last < head) return;
        const taken = performance.now() - begun;
        request.destroy();
        if (counter.events === BEHIND && counter.repeated === 0) resolve(taken);
        else reject(new Error(`a resume brought ${counter.events} events instead of ${BEHIND}`));
      });
      response.on("error", () => {});
    });
    request.on("error", reject);
  });
}

function atShort(rounds: readonly number[]): { what: string; value: number } {
  return { what: "at 1k", value: median(rounds) };
}

function flatEnough({ ratio }: { ratio: number }): boolean {
  return ratio <= 2;
}
