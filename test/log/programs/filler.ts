import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SluiceError } from "../../../src/contract/index.ts";
import type { EventDraft } from "../../../src/contract/index.ts";
import { createSqliteLog } from "../../../src/log/index.ts";

/** Appends until the disk is full, makes room, goes on, and opens the log again. Prints its findings as JSON. */
const [folder = "", kind = ""] = process.argv.slice(2);
const ballast = join(folder, "..", "ballast");
writeFileSync(ballast, Buffer.alloc(512 * 1024));
let log = createSqliteLog({ folder });
await log.create({ id: "s", spec: { agent: "x" }, owner: "o", time: 1 });

const TIMES: Record<string, number> = { rows: 500, "long rows": 5_000, blobs: 10_000 };

const toEvents = (n: number): EventDraft[] =>
  Array.from({ length: 20 }, (_, i) => ({
    type: "item.delta",
    source: "agent",
    data: {
      item_id: "i",
      delta: (kind === "blobs" && i === 7 ? "blob " : "x").repeat(TIMES[kind] ?? 1) + n + i,
    },
  }));

let acknowledged = 0;
const fill = async (): Promise<SluiceError> => {
  for (let n = 0; n < 10_000; n++) {
    try {
      acknowledged = (
        await log.append("s", { epoch: 1, time: n, events: toEvents(n), spool: { process: 1, offset: n } })
      ).last;
    } catch (error) {
      if (error instanceof SluiceError) return error;
      throw error;
    }
  }
  throw new Error("the disk was never full");
};
const first = await fill();
const second = await fill();
const row = await log.find("s");
const whenFull = { acknowledged, head: row?.head };
rmSync(ballast);
const { last } = await log.append("s", { epoch: 1, time: 1, events: toEvents(0) });
await log.close();
log = createSqliteLog({ folder });
let after = 0;
let gapless = true;
for (;;) {
  const page = await log.read("s", { after, limit: 500 });
  if (page.length === 0) break;
  for (const event of page)
    gapless &&= event.sequence === ++after && JSON.parse(event.body).sequence === after;
}
await log.close();
process.stdout.write(
  `${JSON.stringify({ codes: [first.code, second.code], detail: first.message, whenFull, last, read: after, gapless })}\n`,
);
