import { writeSync } from "node:fs";
import { createSqliteLog } from "../../../src/log/index.ts";

/** Appends to session `s` until it is killed, and prints each last sequence once it is acknowledged. */
const [folder = ""] = process.argv.slice(2);
const log = createSqliteLog({ folder });
const session =
  (await log.find("s")) ?? (await log.create({ id: "s", spec: { agent: "x" }, owner: "a", time: 1 }));
const epoch = await log.claim("s", { owner: `pid ${process.pid}`, from: session.epoch });
let offset = session.spool?.offset ?? 0;
for (let round = 0; ; round++) {
  // Every fifth batch is so long that it commits on another thread.
  const size = round % 5 === 0 ? 800 : 1 + (round % 40);
  const events = Array.from({ length: size }, (_, n) => ({
    type: "item.delta" as const,
    source: "agent" as const,
    data: {
      item_id: "i",
      delta: round % 17 === 0 && n === 0 ? "big ".repeat(10_000) + round : `delta ${round} ${n}`,
    },
    raw: JSON.stringify({ round, n }),
  }));
  offset += size;
  const { last } = await log.append("s", { epoch, time: Date.now(), events, spool: { process: 1, offset } });
  writeSync(1, `${last}\n`);
  if (round % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
}
