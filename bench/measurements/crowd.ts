import type { RunningServer } from "../contenders/contender.ts";
import { call, inParallel } from "../clients/http.ts";
import { LeanClients } from "../clients/lean-clients.ts";
import { LeanConnection } from "../clients/lean-connection.ts";
import type { Measurement } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";

const QUIET_LOOKS = 200;
const LOOKS_AT_ONCE = 5;
const PATIENCE_MS = 30 * 60_000;
const MESSAGE = { message: '#script [{"say":"one two three"}]' };

/** (o) A message to each of many sessions at once: unfinished turns, and the latency of another session meanwhile. */
export const crowd: Measurement = {
  id: "o",
  title: "1,000 sessions sent a message at once",
  async measure(plan) {
    const count = plan.quick ? 100 : 1_000;
    const clients = await LeanClients.start(1);
    const server = await plan.sluice.start({ plainly: true });
    try {
      const bystander = await Bystander.arrive(server, clients);
      const quiet = await bystander.look(QUIET_LOOKS);
      await inParallel(count, 8, (index) => call("POST", sessionUrl(server, index), { agent: "scripted" }));
      const endedBefore = (await readMetrics(server)).turnsEnded - bystander.turns;
      const begun = performance.now();
      const sending = inParallel(count, 32, (index) =>
        call("POST", `${sessionUrl(server, index)}/messages`, MESSAGE),
      );
      const busy: Looks = { get: [], message: [] };
      let descriptors = 0;
      for (;;) {
        const { get, message } = await bystander.look(LOOKS_AT_ONCE);
        busy.get.push(...get);
        busy.message.push(...message);
        const metrics = await readMetrics(server);
        descriptors = Math.max(descriptors, metrics.descriptors);
        const done = metrics.turnsEnded - bystander.turns - endedBefore;
        plan.progress(`${done} of ${count} have ended`);
        if (done >= count || performance.now() - begun > PATIENCE_MS) break;
      }
      await sending;
      const seconds = (performance.now() - begun) / 1000;
      const unfinished = await countUnfinished(server, count);
      return [
        {
          id: "o",
          what: `of ${count} sessions sent a message at once, not completed`,
          unit: "sessions",
          value: unfinished,
          target: "0",
          verdict: unfinished === 0 ? "pass" : "miss",
        },
        toRow({ id: "o", what: `until all ${count} were done`, unit: "s", rounds: [seconds] }),
        compare("GET of another session meanwhile, p50", busy.get, quiet.get),
        compare("message to first event of another session meanwhile, p50", busy.message, quiet.message),
        toRow({ id: "o", what: "most descriptors of the server", unit: "open", rounds: [descriptors] }),
      ];
    } finally {
      await clients.close();
      await server.stop();
    }
  },
};

interface Looks {
  readonly get: number[];
  readonly message: number[];
}

/** A client of another, running session. */
class Bystander {
  /** How many turns it has had. */
  turns = 0;
  readonly #connection: LeanConnection;
  readonly #clients: LeanClients;
  readonly #session: Awaited<ReturnType<RunningServer["openSession"]>>;

  private constructor(
    connection: LeanConnection,
    clients: LeanClients,
    session: Awaited<ReturnType<RunningServer["openSession"]>>,
  ) {
    this.#connection = connection;
    this.#clients = clients;
    this.#session = session;
  }

  static async arrive(server: RunningServer, clients: LeanClients): Promise<Bystander> {
    const session = await server.openSession({ deltas: 3 });
    return new Bystander(await LeanConnection.open(server.url), clients, session);
  }

  async look(times: number): Promise<Looks> {
    const { stream, prompt, endMark } = this.#session;
    const get: number[] = [];
    for (let n = 0; n < times; n++) {
      const begun = performance.now();
      await this.#connection.get(new URL(prompt.url).pathname.replace(/\/messages$/, ""));
      get.push(performance.now() - begun);
    }
    const after = await this.#session.head();
    const { any } = await this.#clients.prompt({ session: { stream, prompt, endMark }, after, turns: times });
    this.turns += times;
    return { get, message: [...any] };
  }
}

function compare(what: string, busy: readonly number[], quiet: readonly number[]): Row {
  return toRow({
    id: "o",
    what,
    unit: "ms",
    rounds: [median(busy)],
    against: { what: "quiet", value: median(quiet) },
    target: "≤ 3× quiet",
    reached: ({ ratio }) => ratio <= 3,
  });
}

async function readMetrics({ url }: RunningServer): Promise<{ turnsEnded: number; descriptors: number }> {
  const { text } = await call("GET", `${url}/metrics`);
  const read = (name: string): number =>
    Number(new RegExp(`^sluice_${name} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  return { turnsEnded: read("turns_ended_total"), descriptors: read("descriptors_open") };
}

/** Sessions without a completed turn. */
async function countUnfinished(server: RunningServer, count: number): Promise<number> {
  let unfinished = 0;
  await inParallel(count, 8, async (index) => {
    const { text } = await call("GET", `${sessionUrl(server, index)}/events?limit=100&extensions=true`);
    if (!/"type":"turn.ended".*"status":"completed"/.test(text)) unfinished += 1;
  });
  return unfinished;
}

function sessionUrl({ url }: RunningServer, index: number): string {
  return `${url}/v1/sessions/crowd-${index}`;
}
