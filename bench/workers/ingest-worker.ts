import { type Harness, scripted } from "../../src/harness/index.ts";
import { createSqliteLog, type EventLog } from "../../src/log/index.ts";
import type { AgentLine } from "../../src/scripted-agent/protocol.ts";
import { createEngine } from "../../src/sessions/index.ts";
import { createDriver } from "../../src/sqlite/driver.ts";
import { DELTA_BYTES } from "../contenders/contender.ts";
import { type BareBatch, openBareLog } from "../measurements/log-limit.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface IngestTask {
  readonly lines: number;
  readonly rounds: number;
}

export interface IngestResult {
  /** Lines a second through spool, follow, decode, admit and commit, and by the bare limit, round by round. */
  readonly real: readonly number[];
  readonly limit: readonly number[];
  readonly batches: number;
}

process.once("message", (task: IngestTask) => {
  void measure(task).then((result) => process.send?.(result, () => process.disconnect()));
});

/** The whole way of a native line except HTTP, alternating with the bare limit for the same rows. */
async function measure(task: IngestTask): Promise<IngestResult> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-bench-ingest-"));
  const lines = nativeTurn(task.lines);
  const file = join(folder, "turn.jsonl");
  await writeFile(file, `${lines.join("\n")}\n`);
  const recorded = recordAppends(createSqliteLog({ folder: join(folder, "data") }));
  const { log } = recorded;
  const engine = await createEngine({
    log,
    dataDir: join(folder, "data"),
    harnesses: [printing(file)],
    defaultSandbox: "local",
  });
  const bare = await openBareLog(join(folder, "bare"));
  const real: number[] = [];
  const limit: number[] = [];
  try {
    await engine.create("bench", { agent: "scripted" });
    // The first round warms up and is not counted.
    for (let round = 0; round <= task.rounds; round++) {
      recorded.ends.length = 0;
      const ended = recorded.untilTurnEnds();
      // Work after the end of the turn before finishes first.
      await sleep(200);
      collectGarbage();
      const begun = performance.now();
      await engine.send("bench", { content: [{ type: "text", text: "go" }], via: "bench" });
      await ended;
      const seconds = (performance.now() - begun) / 1000;
      const batches = readRows(join(folder, "data"), recorded.ends);
      // The limit has to write the same events.
      const written = batches.flat().reduce((sum, { first, last }) => sum + last - first + 1, 0);
      if (written < lines.length)
        throw new Error(`only ${written} events of ${lines.length} lines were found`);
      collectGarbage();
      const bareSeconds = bare.insert(batches, lines);
      if (round === 0) continue;
      real.push(lines.length / seconds);
      limit.push(lines.length / bareSeconds);
    }
    await engine.terminate("bench");
    return { real, limit, batches: recorded.ends.length };
  } finally {
    bare.close();
    await engine.close();
    await log.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Before each measurement, so that neither side collects the garbage of reading the rows back. */
function collectGarbage(): void {
  (globalThis as { gc?: () => void }).gc?.();
}

/** An agent that costs nothing: each prompt makes `cat` print the same recorded turn. */
function printing(file: string): Harness {
  const print = `while read -r line; do cat '${file}'; done`;
  return { ...scripted, launch: () => ({ argv: ["/bin/sh", "-c", print], env: {} }) } as Harness;
}

interface Recorded {
  readonly log: EventLog;
  /** The last sequence of each append. */
  readonly ends: number[];
  untilTurnEnds(): Promise<void>;
}

function recordAppends(inner: EventLog): Recorded {
  const ends: number[] = [];
  let onEnd: (() => void) | undefined;
  const append: EventLog["append"] = async (session, batch) => {
    const appended = await inner.append(session, batch);
    ends.push(appended.last);
    if (batch.events.at(-1)?.type === "turn.ended") onEnd?.();
    return appended;
  };
  const log = new Proxy(inner, {
    get(target, key) {
      if (key === "append") return append;
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? (value as () => unknown).bind(target) : value;
    },
  });
  const untilTurnEnds = (): Promise<void> =>
    new Promise((resolve) => {
      onEnd = resolve;
    });
  return { log, ends, untilTurnEnds };
}

/** The rows of these appends, as they lie in the database. */
function readRows(folder: string, ends: readonly number[]): BareBatch[] {
  const driver = createDriver(join(folder, "log.db"));
  try {
    const read = driver.prepare(
      "SELECT first, last, bodies, raws FROM segments WHERE last > ? AND last <= ? ORDER BY last",
    );
    let after = Number(
      driver.prepare("SELECT max(last) AS last FROM segments WHERE last < ?").get(ends[0] ?? 0)?.["last"] ??
        0,
    );
    return ends.map((end) => {
      const rows = read.all(after, end) as unknown as BareBatch;
      after = end;
      return rows;
    });
  } finally {
    driver.close();
  }
}

const DELTAS_PER_MESSAGE = 400;

/** One turn of this many native lines, nearly all of them text deltas, as the scripted agent prints them. */
export function nativeTurn(lines: number): string[] {
  const said: AgentLine[] = [
    { type: "turn.started", turn: 1 },
    { type: "model.started", id: "req_1" },
  ];
  while (said.length < lines - 4) {
    const id = `msg_${said.length}`;
    const room = Math.min(DELTAS_PER_MESSAGE, lines - said.length - 4);
    const deltas = Array.from({ length: room }, (_, n) =>
      `${n} some "quoted" words`.padEnd(DELTA_BYTES, "~"),
    );
    said.push({ type: "text.started", id });
    for (const text of deltas) said.push({ type: "text.delta", id, text });
    said.push({ type: "text.ended", id, text: deltas.join("") });
  }
  said.push({ type: "model.ended", id: "req_1", usage: { output_tokens: lines }, estimated: true });
  said.push({ type: "turn.ended", turn: 1, stop_reason: "end_turn" });
  return said.map((line) => JSON.stringify(line));
}
