import { createInterface } from "node:readline";
import { createSqliteLog } from "../../../src/log/index.ts";

/** Another process on the same database. It runs the command of each line of stdin and prints the result. */
const [folder = ""] = process.argv.slice(2);
const log = createSqliteLog({ folder });
const { signal } = new AbortController();
let epoch = 0;

const commands: Record<string, (session: string, number: number) => Promise<unknown>> = {
  claim: async (session, from) => (epoch = await log.claim(session, { owner: "neighbour", from })),
  append: async (session, count) => {
    const events = Array.from({ length: count }, (_, n) => ({
      type: "item.delta" as const,
      source: "agent" as const,
      data: { item_id: "theirs", delta: `${n}` },
    }));
    return (await log.append(session, { epoch, time: 1, events })).last;
  },
  follow: async (session, until) => {
    let after = 0;
    while (after < until) {
      const page = await log.read(session, { after, limit: 100 });
      after += page.length;
      if (page.length === 0) await log.moved(session, after, { signal });
    }
    return after;
  },
  remove: (session) => log.remove(session),
  create: async (session) =>
    (await log.create({ id: session, spec: { agent: "x" }, owner: "neighbour", time: 7 })).id,
};

process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const [verb = "", session = "", number = "0"] = line.split(" ");
  try {
    process.stdout.write(`${line}: ${String(await commands[verb]?.(session, Number(number)))}\n`);
  } catch (error) {
    process.stdout.write(`${line}: failed ${(error as { code?: string }).code ?? String(error)}\n`);
  }
}
await log.close();
