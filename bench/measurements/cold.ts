import type { Contender, RunningServer } from "../contenders/contender.ts";
import { now } from "../environment.ts";
import { LeanClients } from "../clients/lean-clients.ts";
import { alternate, type Plan } from "../plan.ts";
import { median, quantile, toRow, withoutPeer, type Row } from "../report/row.ts";

/** The first turns of a server that was started for them. */
const TURNS = 20;
const DELTAS = 50_000;

/** From the first message of a new server to its first events. */
export async function coldFirstEvent(plan: Plan): Promise<Row[]> {
  const clients = await LeanClients.start(1);
  try {
    const rounds = await alternate(plan, plan.rounds, (contender) =>
      withFreshServer(contender, async (server) => {
        const session = await server.openSession({ deltas: 3 });
        const { stream, prompt, endMark } = session;
        const after = await session.head();
        return clients.prompt({ session: { stream, prompt, endMark }, after, turns: TURNS });
      }),
    );
    return [
      compare(rounds, ({ any }) => quantile(any, 0.5), {
        ...FIRST,
        times: 1.5,
        what: "message to first event",
      }),
      compare(rounds, ({ agent }) => quantile(agent, 0.5), {
        ...FIRST,
        times: 3,
        what: "message to first text",
      }),
    ];
  } finally {
    await clients.close();
  }
}

const FIRST = { id: "a", unit: "ms", sense: "at most", cold: `of the first ${TURNS} turns` } as const;

/** The first long turn of a server, to one reader and to fifty. */
export async function coldDelivery(plan: Plan): Promise<Row[]> {
  const clients = await LeanClients.start(2);
  try {
    const rows: Row[] = [];
    for (const { readers, times } of [
      { readers: 1, times: 2 },
      { readers: 50, times: 6 },
    ]) {
      const deltas = plan.quick && readers > 1 ? DELTAS / 5 : DELTAS;
      const rounds = await alternate(plan, plan.rounds, (contender) =>
        withFreshServer(contender, (server) => flood(server, clients, { readers, deltas })),
      );
      const what = `${deltas.toLocaleString("en-US")} deltas to ${readers === 1 ? "1 reader" : `${readers} readers`}`;
      const shape = {
        id: "b",
        unit: "events/s",
        sense: "at least",
        times,
        what,
        cold: "a first turn",
      } as const;
      rows.push(compare(rounds, ({ perSecond }) => perSecond, shape));
      rows.push({
        id: "b",
        what: `cold: lost of ${what}`,
        unit: "events",
        value: lostOf(rounds.own),
        target: "0",
        verdict: lostOf(rounds.own) === 0 ? "pass" : "miss",
        ...(rounds.peer.length > 0 && { against: { what: "peer", value: lostOf(rounds.peer) } }),
      });
    }
    return rows;
  } finally {
    await clients.close();
  }
}

interface Flooded {
  readonly perSecond: number;
  readonly lost: number;
}

function lostOf(rounds: readonly Flooded[]): number {
  return rounds.reduce((sum, { lost }) => sum + lost, 0);
}

async function flood(
  server: RunningServer,
  clients: LeanClients,
  { readers, deltas }: { readers: number; deltas: number },
): Promise<Flooded> {
  const session = await server.openSession({ deltas: 3 });
  const after = await session.head();
  let begun = 0;
  let turn: Promise<void> = Promise.resolve();
  const task = { stream: session.stream, after, readers, marker: session.endMark, silenceMs: 3_000 };
  const read = await clients.read(task, () => {
    begun = now();
    turn = session.flood(deltas);
    turn.catch(() => {});
  });
  await turn;
  const events = read.reduce((sum, reader) => sum + reader.events, 0);
  const endedAt = Math.max(...read.map((reader) => reader.endedAt));
  const expected = ((await session.head()) - after) * readers;
  return { perSecond: (events / (endedAt - begun)) * 1000, lost: expected - events };
}

async function withFreshServer<T>(
  contender: Contender,
  work: (server: RunningServer) => Promise<T>,
): Promise<T> {
  const server = await contender.start({ plainly: true });
  try {
    return await work(server);
  } finally {
    await server.stop();
  }
}

interface Shape {
  readonly id: string;
  readonly unit: string;
  readonly what: string;
  readonly cold: string;
  readonly sense: "at most" | "at least";
  /** How many times the peer. */
  readonly times: number;
}

function compare<T>(
  { own, peer, absent }: { own: readonly T[]; peer: readonly T[]; absent?: string },
  pick: (round: T) => number,
  { id, unit, what, cold, sense, times }: Shape,
): Row {
  const base = { id, what: `cold: ${what}, ${cold}`, unit, rounds: own.map(pick) };
  const target = `${sense === "at most" ? "≤" : "≥"} ${times}× peer`;
  if (peer.length === 0) {
    const row = toRow(base);
    return absent === undefined ? row : withoutPeer(row, target, absent);
  }
  const reached = ({ ratio }: { ratio: number }): boolean =>
    sense === "at most" ? ratio <= times : ratio >= times;
  return toRow({ ...base, against: { what: "peer", value: median(peer.map(pick)) }, target, reached });
}
