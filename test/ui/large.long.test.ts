import { EventEmitter, once } from "node:events";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EVENT_TYPES } from "../../src/contract/index.ts";
import { openPage, type PageBench, placeOf, untilComplete } from "./page-bench.ts";
import { script } from "./script.ts";
import { draft, everyType, type Seed, spokenTurn } from "./seed.ts";

const START = Date.parse("2026-03-01T09:00:00Z");
const TURNS = 100;
const SESSIONS = 10_000;

/** 100 turns of 1,000 events. The words that are searched stand in the first turn and in one of the middle. */
function* longTurns(): Generator<Seed["batches"] extends Iterable<infer Batch> ? Batch : never> {
  for (let turn = 1; turn <= TURNS; turn++) {
    const words = turn === 1 || turn === 50 ? "the needle " : "straw ";
    const texts = Array.from({ length: 993 }, (_, n) => (n === 7 ? words : `word ${n} `));
    const events = spokenTurn(turn, `question ${turn}`, [...texts, `answer ${turn} is whole`]);
    yield { time: START + turn * 60_000, events };
  }
}

/** What an agent made of bytes that are no text, and a tool's result of 100 MB. */
function* wideLines(): Seed["batches"] & Generator {
  const call = { type: "tool_call", name: "shell", arguments: '{"command":"cat big"}', call_id: "c1" };
  const output = `a\uFFFDb\n${"x".repeat(100_000_000 - 1)}`;
  const tool = { item_id: "itm_t", kind: "tool_call", role: "assistant", content: [call] };
  const result = { item_id: "itm_r", kind: "tool_result", parent_id: "itm_t", role: "tool" };
  const whole = [{ type: "tool_result", call_id: "c1", output }];
  const [input, started, ...rest] = spokenTurn(1, "show me everything", ["still ", "here"]);
  const wide = [
    draft("agent.unparsed", { error: "a line of 4 bytes is not valid UTF-8", location: "out:167" }),
    draft("item.started", { item: { ...tool, status: "in_progress" } } as never),
    draft("item.completed", { item: { ...tool, status: "completed" } } as never),
    draft("item.started", { item: { ...result, status: "in_progress", content: [] } } as never),
    draft("item.completed", { item: { ...result, status: "completed", content: whole } } as never),
  ];
  yield { time: START, events: [input, started, ...wide, ...rest] as never };
}

/** Events that belong to the row of another, by the type that begins it. */
const JOINED: Readonly<Record<string, string>> = {
  "item.delta": "item.started",
  "item.completed": "item.started",
  "permission.resolved": "permission.requested",
  "question.resolved": "question.requested",
  "tool.resolved": "tool.requested",
  "model.first": "model.started",
  "model.ended": "model.started",
  "command.output": "command.started",
  "command.ended": "command.started",
};

function* seeds(): Generator<Seed> {
  yield { id: "long", time: START, spec: { title: "A long session" }, batches: longTurns() };
  yield { id: "every", time: START, batches: [{ time: START, events: everyType() }] };
  yield { id: "wide", time: START, batches: wideLines() };
  for (let n = 0; n < SESSIONS; n++)
    yield { id: `many-${n}`, time: START - n * 1_000, spec: { title: `Work ${n}` }, batches: [] };
}

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage({ seeds: seeds() });
  await bench.page.addInitScript(countMessages);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

/** Counts the messages of workers, and the frames that the page draws. */
function countMessages(): void {
  const seen = { messages: 0, frames: 0 };
  (globalThis as { seen?: typeof seen }).seen = seen;
  const Plain = globalThis.Worker;
  globalThis.Worker = class extends Plain {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options);
      this.addEventListener("message", () => (seen.messages += 1));
    }
  };
  const next = (): void => {
    seen.frames += 1;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}

/** A test may be tried twice on the same server. */
let tries = 0;

const countNodes = (): Promise<number> => bench.page.evaluate(() => document.querySelectorAll("*").length);

/** The memory of the browser's pages that no other process shares, in megabytes. */
async function ownMegabytes(): Promise<number> {
  const session = await bench.browser.context.browser()?.newBrowserCDPSession();
  if (!session) throw new Error("the browser tells nothing about its processes");
  const { processInfo } = (await session.send("SystemInfo.getProcessInfo")) as {
    processInfo: { type: string; id: number }[];
  };
  const anonymous = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0));
  return Math.max(...anonymous) / 1024;
}

describe("a large server", () => {
  it("2: a session of 100,000 events shows its last turn and its turns before its log was read", async () => {
    const { page } = bench;
    await bench.open("#/");
    await page.fill(".search input", "A long session");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    // The log's stream is held back: what is shown now needs none of it.
    const gate = new EventEmitter();
    const held = once(gate, "open");
    await page.context().route("**/long/events/sse**", async (route) => {
      await held;
      await route.continue();
    });
    await page.click(".session-link >> text=A long session");
    await page.waitForSelector(`.markdown >> text=answer ${TURNS} is whole`);
    await page.waitForSelector(`.turns >> text=question ${TURNS}`);
    expect(await page.$$eval(".turns > li", (turns) => turns.length)).toBe(TURNS);
    expect(await page.textContent(".gapless")).toBe("…");
    expect(asked.filter((path) => path.startsWith("/v1/sessions/long")).length).toBeLessThanOrEqual(6);
    expect(await countNodes()).toBeLessThan(3_000);
    gate.emit("open");
    await untilComplete(bench, "long");
    expect((await placeOf(page)).head).toBeGreaterThanOrEqual(100_000);
    await page.context().unroute("**/long/events/sse**");
    expect(await countNodes()).toBeLessThan(3_000);
  });

  it("13: a search finds words in events that were never on the screen, and says how many", async () => {
    const { page } = bench;
    await page.goto("about:blank");
    await bench.open("#/s/long");
    await page.waitForSelector(`.markdown >> text=answer ${TURNS} is whole`);
    // The index is not whole yet, and the texts of most events are not in memory at any time.
    await page.keyboard.press("/");
    await page.fill(".palette-input", "the needle");
    await page.waitForSelector(".palette-total >> text=4 events have these words");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".past");
    expect((await placeOf(page)).at).toBeLessThan(1_000);
    await page.waitForSelector(".markdown >> text=the needle");
    await page.keyboard.press("Escape");
    await page.waitForSelector(".past", { state: "detached" });
  });

  it("14: a seek into a log of 100,000 events reads the pages of the rows on the screen", async () => {
    const { page } = bench;
    await untilComplete(bench, "long");
    let asked = 0;
    page.on("request", () => (asked += 1));
    for (const at of [12_345, 77_777, 500, 99_000]) {
      asked = 0;
      await page.evaluate((place) => (location.hash = `#/s/long/e/${place}`), at);
      await page.waitForFunction(
        (place) => document.querySelector(".bar-place")?.textContent?.replaceAll(",", "").startsWith(place),
        `${at} `,
      );
      await page.waitForSelector(`.row >> text=question ${Math.ceil(at / 1_001)}`);
      expect(asked, `event ${at}`).toBeLessThanOrEqual(20);
    }
  });

  it("6: a list of 10,000 sessions has few elements, scrolls to its end, and shows a change", async () => {
    const { page } = bench;
    const { client } = bench.server;
    const chosen = SESSIONS / 2 + ++tries;
    await page.goto("about:blank");
    await bench.open("#/");
    await page.fill(".search input", "");
    await page.waitForSelector(".session-row >> text=Work 0");
    expect(await countNodes()).toBeLessThan(1_000);
    await page.focus(".sessions .lines");
    await page.keyboard.press("End");
    await page.waitForSelector(`.session-row >> text=Work ${SESSIONS - 1}`);
    expect(await countNodes()).toBeLessThan(1_000);
    await client.sendMessage(`many-${chosen}`, script([{ ask: { shell: "true" } }, { say: "changed" }]));
    // A session that waits for somebody comes to the top.
    await page.keyboard.press("Home");
    await page.waitForSelector(`.session-row:has-text("Work ${chosen}") >> text=asks:`);
    await page.waitForSelector(".facts >> text=1 waiting");
    await client.sessions.delete(`many-${chosen}`);
    await page.waitForSelector(".facts >> text=0 waiting");
    await page.waitForSelector(`.session-row:has-text("Work ${chosen}")`, { state: "detached" });
  });

  it("7: every event type of the contract has a row with words of its own, an unknown one its JSON", async () => {
    const { page } = bench;
    await page.goto("about:blank");
    await page.setViewportSize({ width: 1280, height: 4_000 });
    await bench.open("#/s/every");
    await page.waitForSelector(".row");
    await page.keyboard.press("v");
    await page.waitForSelector(".row[data-type='session.started']");
    const events = await bench.server.client.getEvents("every", { extensions: true });
    expect(events.length).toBe(EVENT_TYPES.length);
    const rows = await page.$$eval(".row", (all) =>
      all.map((row) => ({
        type: row.getAttribute("data-type") ?? "",
        first: Number(row.getAttribute("data-sequence")),
        last: Number(row.getAttribute("data-last")),
        text: row.querySelector(".row-body")?.textContent ?? "",
      })),
    );
    const told = new Set<string>();
    for (const { type, sequence } of events) {
      const row = rows.find((one) => one.first === sequence && one.type === type);
      const joined = rows.find(
        (one) => one.type === JOINED[type] && one.first < sequence && one.last >= sequence,
      );
      expect(row ?? joined, type).toBeDefined();
      if (!row) continue;
      expect(row.text.trim(), type).not.toBe("");
      told.add(row.text);
    }
    // No two types are told in the same words.
    expect(told.size).toBe(rows.length);
    await page.waitForSelector(".row[data-type='future.thing'] pre >> text=brand");
    await page.keyboard.press("v");
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  it(
    "3: a flood costs one message for each frame, and neither elements nor memory grow with it",
    { timeout: 120_000 },
    async () => {
      const { page } = bench;
      const { client } = bench.server;
      const id = `flood-${++tries}`;
      await client.sessions.create(id, { agent: "scripted" });
      await bench.open(`#/s/${id}`);
      await page.waitForSelector(".composer textarea");
      const before = await page.evaluate(() => ({ ...(globalThis as unknown as { seen: Seen }).seen }));
      const floods = Array.from({ length: 20 }, () => ({ flood: { events: 3_000 } }));
      await client.sendMessage(id, script([...floods, { say: "after the flood" }]));
      await page.waitForSelector(".markdown >> text=after the flood", { timeout: 90_000 });
      const after = await page.evaluate(() => ({ ...(globalThis as unknown as { seen: Seen }).seen }));
      expect((await placeOf(page)).head).toBeGreaterThan(60_000);
      // A call of the page has an answer beside its screens.
      expect(after.messages - before.messages).toBeLessThanOrEqual(after.frames - before.frames + 20);
      await expect.poll(() => page.textContent(".gapless")).toBe("gapless ✓");
      expect(await countNodes()).toBeLessThan(3_000);
      expect(await ownMegabytes()).toBeLessThan(250);
      await client.sessions.delete(id);
    },
  );

  it(
    "8: bytes that are no text and a line of 100 MB neither break nor freeze the page",
    { timeout: 120_000 },
    async () => {
      const { page } = bench;
      await page.goto("about:blank");
      await bench.open("#/s/wide");
      await page.waitForSelector(".row >> text=agent.unparsed");
      await page.waitForSelector(".markdown >> text=still here");
      await page.click(".row-tool .summary");
      await page.waitForSelector(".row-tool .details >> text=99,940,003 more characters are in the log");
      await page.click(".row-tool >> text=Show the output before this");
      await page.waitForSelector(".row-tool .details >> text=a\uFFFDb");
      // The whole event is read for its frames, and shown in part.
      await page.keyboard.press("r");
      await page.waitForSelector(".frame-row >> text=agent.unparsed");
      expect(await countNodes()).toBeLessThan(3_000);
      expect(bench.faults).toEqual([]);
    },
  );
});

interface Seen {
  readonly messages: number;
  readonly frames: number;
}
