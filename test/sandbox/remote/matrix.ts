import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Sandbox } from "../../../src/sandbox/port.ts";
import type { Spool } from "../../../src/spool/index.ts";

const LINES = 600;
const INPUTS = 16;

/** Prints numbered lines, each line of its input as it comes, and a tick now and then, so that no fault comes too late. */
const COUNTER = `let n = 0;
require("node:readline").createInterface({ input: process.stdin }).on("line", (l) => console.log("in " + l)).on("close", () => process.exit(7));
const t = setInterval(() => { for (let i = 0; i < 4; i++) { console.log("line " + n++); } if (n >= ${LINES}) clearInterval(t); }, 10);
setInterval(() => console.log("tick"), 50);`;

/** A fault. One that ends the server gives the sandbox as the next server has it. */
type Strike = () => Promise<Sandbox | void> | Sandbox | void;

/** Runs a process through faults. Every line has to come once and in order, every input once, and then its end. */
export async function expectEverythingOnce(first: Sandbox, strikes: readonly Strike[]): Promise<void> {
  let sandbox = first;
  let server = new AbortController();
  const launch = { argv: ["node", "-e", COUNTER], env: {} };
  await sandbox.processes.start({ name: "counter", launch, streams: "private" });
  const left = [...strikes];
  const lines: string[] = [];
  let offset = 0;
  let exit: unknown;
  const follow = async (): Promise<boolean> => {
    const spool = await sandbox.processes.open("counter");
    const signal = AbortSignal.any([server.signal, AbortSignal.timeout(120_000)]);
    for await (const batch of spool!.follow({ from: offset, signal })) {
      lines.push(...batch.lines.map(({ text }) => text));
      offset = batch.offset;
      exit = batch.exit;
      const due = LINES - (left.length * LINES) / (strikes.length + 1);
      if (left.length === 0 || lines.length < due) continue;
      const next = await left.shift()?.();
      if (!next) continue;
      sandbox = next;
      server.abort();
      server = new AbortController();
      return false;
    }
    return true;
  };
  /** A call fails during a fault, and where the next server has taken the sandbox over. */
  const insist = async (work: (spool: Spool) => Promise<unknown>): Promise<void> => {
    const isDone = async (): Promise<boolean> => {
      const spool = await sandbox.processes.open("counter");
      await work(spool!);
      return true;
    };
    while (!(await isDone().catch(() => false))) await sleep(50);
  };
  const all = (async () => {
    while (!(await follow()));
  })();
  const feed = (async () => {
    for (let n = 0; n < INPUTS; n += 1) {
      const entry = { id: `i${n}`, at: 0, text: `${n}\n` };
      // A server that does not know whether its input arrived sends it again.
      for (let sent = 0; sent < 2; sent += 1) await insist((spool) => spool.send(entry));
    }
    await expect.poll(() => left.length, { timeout: 120_000 }).toBe(0);
    await expect
      .poll(() => lines.filter((line) => line.startsWith("line ")).length, { timeout: 120_000 })
      .toBe(LINES);
    await insist((spool) => spool.closeInput());
  })();
  await Promise.all([all, feed]);
  expect(left).toEqual([]);
  expect(exit).toEqual({ code: 7 });
  expect(lines.filter((line) => line.startsWith("line "))).toEqual(numbered("line", LINES));
  expect(lines.filter((line) => line.startsWith("in "))).toEqual(numbered("in", INPUTS));
}

function numbered(word: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${word} ${n}`);
}
