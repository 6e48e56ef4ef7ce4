import { fork } from "node:child_process";
import { once } from "node:events";
import { coldFirstEvent } from "./cold.ts";
import { bundled } from "../environment.ts";
import { alternate, Servers, type Measurement } from "../plan.ts";
import { quantile, toRow, withoutPeer, type Row } from "../report/row.ts";
import type { PromptResult, PromptTask } from "../workers/prompt-worker.ts";

/** Turns until the code of a new server is compiled. */
const WARM_UP = 150;

/** (a) From a message to its first event on an open stream, with an agent that runs already. */
export const firstEvent: Measurement = {
  id: "a",
  title: "message to first SSE event",
  async measure(plan) {
    const servers = new Servers();
    const turns = plan.quick ? 100 : 300;
    try {
      const { own, peer, absent } = await alternate(plan, plan.rounds, async (contender) => {
        const session = await (await servers.of(contender)).openSession();
        const { stream, prompt, endMark } = session;
        const after = await session.head();
        return prompts({ session: { stream, prompt, endMark }, after, warmUp: WARM_UP, turns });
      });
      const rows: Row[] = await coldFirstEvent(plan);
      for (const [kind, what] of KINDS) {
        for (const [name, part] of [
          ["p50", 0.5],
          ["p99", 0.99],
        ] as const) {
          const rounds = own.map((result) => quantile(result[kind], part));
          const row = { id: "a", what: `message to ${what}, ${name}`, unit: "ms", rounds };
          if (peer.length === 0) {
            const alone = toRow(row);
            rows.push(part === 0.5 && absent ? withoutPeer(alone, "≤ 1.5× peer", absent) : alone);
            continue;
          }
          const against = {
            what: "peer",
            value: quantile(
              peer.map((result) => quantile(result[kind], part)),
              0.5,
            ),
          };
          rows.push(
            part === 0.5
              ? toRow({ ...row, against, target: "≤ 1.5× peer", reached: ({ ratio }) => ratio <= 1.5 })
              : toRow({ ...row, against }),
          );
        }
      }
      return rows;
    } finally {
      await servers.stop();
    }
  },
};

const KINDS = [
  ["any", "first event"],
  ["agent", "first event of the agent"],
] as const;

async function prompts(task: PromptTask): Promise<PromptResult> {
  const worker = fork(bundled("prompt-worker.js"));
  const failed = once(worker, "exit").then(([code]) => {
    throw new Error(`the prompting process ended with ${code}`);
  });
  failed.catch(() => {});
  const timer = setTimeout(() => worker.kill(), 120_000);
  try {
    const result = once(worker, "message");
    worker.send(task);
    return ((await Promise.race([result, failed])) as [PromptResult])[0];
  } finally {
    clearTimeout(timer);
    worker.kill();
  }
}
