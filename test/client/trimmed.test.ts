import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFolderSource } from "../../src/cli/source/folder.ts";
import { tailEvents } from "../../src/cli/commands/tail.ts";
import { createClient } from "../../src/client/index.ts";
import { Sluice, type StreamedEvent } from "../../src/sdk/index.ts";
import { Mailbox } from "../../src/tanstack/adapter.ts";
import { type AppBench, openApp, problemOf } from "../http/app-bench.ts";
import { runTurn, script } from "../support/engine.ts";

let bench: AppBench;
let client: ReturnType<typeof createClient>;
/** Of each turn's end. */
const ends: number[] = [];
beforeAll(async () => {
  bench = await openApp();
  client = createClient({ url: bench.url });
  await bench.test.engine.create("s", { agent: "scripted" });
  for (const word of ["one", "two", "three"])
    ends.push((await runTurn(bench.test, "s", script({ shell: "true" }, { say: word }))).sequence);
});
afterAll(() => bench.close());

async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Up to the end of the last turn. */
async function eventsOf(after?: number): Promise<StreamedEvent[]> {
  const sluice = new Sluice().withServer(bench.url).withSession("s");
  const all: StreamedEvent[] = [];
  for await (const event of sluice.events(after === undefined ? {} : { after })) {
    all.push(event);
    if (event.sequence >= (ends[2] ?? 0)) break;
  }
  await sluice.close();
  return all;
}

describe("events() of the SDK", () => {
  it("has the same events from any cursor as from the start, and reads only the turn around it", async () => {
    const all = await eventsOf(0);
    for (let after = 0; after < (ends[2] ?? 0); after += 5)
      expect(await eventsOf(after)).toEqual(all.filter(({ sequence }) => sequence > after));
    const { log } = bench.test;
    const read = log.read.bind(log);
    let first = Number.POSITIVE_INFINITY;
    Object.assign(log, {
      read: async (...args: Parameters<typeof read>) => {
        const page = await read(...args);
        first = Math.min(first, page[0]?.sequence ?? first);
        return page;
      },
    });
    await log.trim("s", ends[0] ?? 0);
    await eventsOf(ends[1]);
    Object.assign(log, { read });
    expect(first).toBeGreaterThan(ends[0] ?? 0);
  });
});

describe("a log whose oldest events were trimmed away", () => {
  it("is read from its oldest event without a cursor, with a notice", async () => {
    const oldest = (ends[0] ?? 0) + 1;
    await bench.test.log.trim("s", oldest - 1);
    const upToNow = { extensions: true, signal: AbortSignal.timeout(30_000) };
    expect(await client.sessions.get("s")).toMatchObject({ oldest });
    let told = 0;
    for await (const { sequence } of client.subscribe("s", { ...upToNow, onTrimmed: (at) => (told = at) })) {
      expect([sequence, told]).toEqual([oldest, oldest]);
      break;
    }
    const kept = await client.getEvents("s", { extensions: true });
    expect(kept[0]?.sequence).toBe(oldest);
    const source = createFolderSource(bench.test.log, bench.test.folder);
    const { signal } = upToNow;
    let warned = 0;
    const tail = await collect(
      tailEvents(source, "s", { following: "while-running", signal, onTrimmed: (at) => (warned = at) }),
    );
    expect([tail[0]?.sequence, tail.length, warned]).toEqual([oldest, kept.length, oldest]);
    expect((await eventsOf())[0]?.sequence).toBeGreaterThanOrEqual(oldest);
  });

  it("is joined by an instance of the SDK", async () => {
    await bench.test.log.trim("s", ends[0] ?? 0);
    const sluice = new Sluice().withServer(bench.url).withSession("s");
    expect(await sluice.executeCommand("echo joined")).toMatchObject({ exitCode: 0 });
    await sluice.close();
  });

  it("refuses a trimmed cursor and names the oldest one", async () => {
    const oldest = (ends[0] ?? 0) + 1;
    for (const path of ["events?after=1", "events/sse?offset=0"]) {
      const problem = await problemOf(await bench.call("GET", `/v1/sessions/s/${path}`));
      expect(problem).toMatchObject({ status: 410, oldest });
    }
    await expect(collect(client.subscribe("s", { after: 0 }))).rejects.toMatchObject({ code: "cursor_gone" });
  });
});

it("a mailbox's writer waits for its reader", async () => {
  const mailbox = new Mailbox<number>();
  let written = 0;
  const writing = (async () => {
    for (; written < 5000; written += 1) await mailbox.put(written);
    mailbox.close();
  })();
  const reader = mailbox[Symbol.asyncIterator]();
  let most = 0;
  let seen = 0;
  for (let next = await reader.next(); !next.done; next = await reader.next()) {
    expect(next.value).toBe(seen);
    seen += 1;
    most = Math.max(most, written - seen);
  }
  await writing;
  expect(seen).toBe(5000);
  expect(most).toBeLessThan(500);
  const left = new Mailbox<number>();
  const stuck = (async () => {
    for (let item = 0; item < 1000; item += 1) await left.put(item);
  })();
  for await (const _ of left) break;
  await stuck;
});
