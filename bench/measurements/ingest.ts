import { fork } from "node:child_process";
import { once } from "node:events";
import { measureAppends } from "./log-limit.ts";
import { bundled } from "../environment.ts";
import type { Measurement } from "../plan.ts";
import { median, toRow, type Row } from "../report/row.ts";
import type { IngestResult, IngestTask } from "../workers/ingest-worker.ts";

/** (c) Native lines in a spool to committed events, against parsing and inserting the same and nothing else. */
export const ingest: Measurement = {
  id: "c",
  title: "native lines to committed events",
  async measure(plan) {
    // Enough that each round of both sides contains a WAL checkpoint.
    const task = { lines: 200_000, rounds: plan.quick ? 5 : 9 };
    const { real, limit, batches } = await ingestLines(task, plan.profile);
    const alone = await measureAppends({ batch: 1_000, events: task.lines, rounds: task.rounds });
    return [
      againstLimit(real, limit, {
        what: "native lines to committed events",
        unit: "lines/s",
        target: "≥ 0.6× limit",
        note: `${task.lines.toLocaleString("en-US")} lines in about ${batches} transactions.`,
      }),
      againstLimit(alone.appends, alone.limits, {
        what: "the log's append alone",
        unit: "events/s",
        note: "Appending parses nothing, the limit does: the rest of the time is left for the other steps.",
      }),
    ];
  },
};

function againstLimit(
  rounds: readonly number[],
  limits: readonly number[],
  row: Pick<Row, "what" | "unit" | "target" | "note">,
): Row {
  // Round by round: both sides of a round had the same load on the machine.
  const ratio = median(rounds.map((value, round) => value / (limits[round] ?? Number.NaN)));
  const against = { what: "bare limit", value: median(limits) };
  const whole = { ...toRow({ id: "c", ...row, rounds, against }), ratio };
  return row.target === undefined ? whole : { ...whole, verdict: ratio >= 0.6 ? "pass" : "miss" };
}

async function ingestLines(task: IngestTask, profile: string | undefined): Promise<IngestResult> {
  const profiling = profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const execArgv = ["--expose-gc", ...profiling];
  const worker = fork(bundled("ingest-worker.js"), { execArgv });
  const exit = once(worker, "exit");
  const failed = exit.then(([code]) => {
    throw new Error(`the ingesting process ended with ${code}`);
  });
  failed.catch(() => {});
  try {
    const result = once(worker, "message");
    worker.send(task);
    const [taken] = (await Promise.race([result, failed])) as [IngestResult];
    // It writes its profile at its end.
    await exit;
    return taken;
  } finally {
    worker.kill();
  }
}
