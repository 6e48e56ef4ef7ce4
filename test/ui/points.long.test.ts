import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";
import { openPage, type PageBench, placeOf, untilComplete } from "./page-bench.ts";
import { script } from "./script.ts";

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  await bench.browser.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

async function create(id: string, steps: readonly unknown[] = [], options: object = {}): Promise<void> {
  // A test may be tried twice on the same server.
  await bench.server.client.sessions.delete(id).catch(() => {});
  await bench.server.client.sessions.create(id, { agent: "scripted", ...options });
  if (steps.length > 0) await bench.run(id, steps);
}

async function show(id: string, rest = ""): Promise<void> {
  await bench.page.goto("about:blank");
  await bench.open(`#/s/${id}${rest}`);
  await untilComplete(bench, id);
}

const clipboard = (): Promise<string> => bench.page.evaluate(() => navigator.clipboard.readText());

/** The sequence of an event of the session. */
async function sequenceOf(id: string, type: string, which = 0): Promise<number> {
  const events = await bench.server.client.getEvents(id, { extensions: true });
  return events.filter((event) => event.type === type).at(which)?.sequence ?? 0;
}

describe("as a stranger", () => {
  it("1: the address of `sluice open` shows the page with no question, that of a session this session", async () => {
    await create("opened", [{ say: "come in" }]);
    const open = async (...args: string[]): Promise<string> => {
      const { stdout } = await promisify(execFile)(
        join(ROOT, "bin", "sluice"),
        ["open", ...args, "--server", bench.server.url],
        { env: { ...process.env, SLUICE_TOKEN: bench.server.token } },
      );
      return stdout.trim();
    };
    const browser = bench.browser.context.browser();
    for (const [args, wanted] of [
      [[], ".session-row >> text=opened"],
      [["opened"], ".markdown >> text=come in"],
    ] as const) {
      const fresh = await browser?.newContext();
      const page = await fresh?.newPage();
      if (!page) throw new Error("no fresh browser");
      await page.goto(await open(...args));
      await page.waitForSelector(wanted);
      expect(page.url()).not.toContain("k=");
      expect(await page.evaluate(() => history.length)).toBeLessThanOrEqual(2);
      await fresh?.close();
    }
  });

  it(
    "5: a frozen page catches up in order and without a reload, also with a server that was started again",
    { timeout: 90_000 },
    async () => {
      await create("asleep", [{ say: "good night" }]);
      await show("asleep");
      const { page, server } = bench;
      await page.evaluate(() => ((globalThis as { marked?: true }).marked = true));
      const devtools = await page.context().newCDPSession(page);
      await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
      await server.kill();
      await server.start();
      for (let n = 0; n < 3; n++)
        await bench.run("asleep", [{ flood: { events: 700 } }, { say: `dream ${n}` }]);
      await devtools.send("Page.setWebLifecycleState", { state: "active" });
      await page.waitForSelector(".markdown >> text=dream 2", { timeout: 60_000 });
      await untilComplete(bench, "asleep");
      expect(await page.textContent(".gapless")).toBe("gapless ✓");
      const order = await page.$$eval(".row", (rows) =>
        rows.map((row) => Number(row.getAttribute("data-sequence"))),
      );
      expect(order).toEqual(order.toSorted((a, b) => a - b));
      expect(await page.evaluate(() => (globalThis as { marked?: true }).marked)).toBe(true);
    },
  );

  it("12: an item, a turn and the thread are copied as markdown, by key and by button", async () => {
    await create("copied", [{ say: "first answer" }]);
    await bench.run("copied", [{ shell: "echo output-of-two" }, { say: "second **answer**" }]);
    await show("copied");
    const { page } = bench;
    await page.click(".message:not(.message-user) >> text=first answer");
    await page.keyboard.press("i");
    await page.waitForSelector(".toast >> text=The item copied");
    expect(await clipboard()).toBe("first answer\n");
    await page.click(".message:not(.message-user) >> text=second answer");
    await page.keyboard.press("u");
    await page.waitForSelector(".toast >> text=The turn copied");
    expect(await clipboard()).toContain("## Turn 2");
    expect(await clipboard()).toContain("output-of-two");
    expect(await clipboard()).not.toContain("first answer");
    await page.keyboard.press("m");
    await page.waitForSelector(".toast >> text=The thread copied");
    for (const words of ["## Turn 1", "first answer", "## Turn 2", "second **answer**"])
      expect(await clipboard()).toContain(words);
    await page.hover(".row-turn >> nth=0");
    await page.click(".row-turn .row-copy >> nth=0");
    await page.waitForSelector(".toast >> text=The turn copied");
    expect(await clipboard()).toContain("first answer");
  });

  it("15: steps by event and by turn, and plays at each speed with deltas joined", async () => {
    await create("played", [{ say: "one" }]);
    await bench.run("played", [
      { say: Array.from({ length: 200 }, (_, n) => `w${n}`).join(" ") },
      { say: "two" },
    ]);
    await show("played");
    const { page } = bench;
    const { head } = await placeOf(page);
    const second = await sequenceOf("played", "turn.started", 1);
    await page.keyboard.press("Shift+ArrowLeft");
    await page.waitForFunction(isAt, second);
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(isAt, second + 1);
    await page.keyboard.press("ArrowLeft");
    await page.waitForFunction(isAt, second);
    const speeds = new Set<string>();
    for (let press = 0; press < 5; press++) {
      speeds.add((await page.textContent(".speed")) ?? "");
      await page.click(".speed");
    }
    expect([...speeds].toSorted()).toEqual(["0.5×", "10×", "1×", "2×", "5×"]);
    for (let press = 0; press < 5 && (await page.textContent(".speed")) !== "10×"; press++)
      await page.click(".speed");
    // Every place that the bar shows while it plays.
    await page.evaluate(() => {
      const places: string[] = [];
      (globalThis as { places?: string[] }).places = places;
      const place = document.querySelector(".bar-place") as Element;
      new MutationObserver(() => places.push(place.textContent ?? "")).observe(place, {
        subtree: true,
        childList: true,
        characterData: true,
      });
    });
    await page.focus(".transcript");
    await page.keyboard.press(" ");
    await page.waitForSelector(".past", { state: "detached", timeout: 60_000 });
    const places = await page.evaluate(() => (globalThis as { places?: string[] }).places ?? []);
    const shown = new Set(places.map((text) => Number((text.split("/")[0] ?? "").replaceAll(/\D/g, ""))));
    expect(Math.max(...shown)).toBe(head);
    expect(shown.size).toBeLessThan((head - second) / 2);
    await page.keyboard.press("ArrowLeft");
    await page.waitForSelector(".past");
    await page.keyboard.press("l");
    await page.waitForSelector(".past", { state: "detached" });
  });

  it("16: asks, queue, plan and usage are those of the moment; nothing but a fork leads on from it", async () => {
    const { client } = bench.server;
    await create("moments", [{ say: "ready" }], { autoCheckpoint: true });
    await client.sendMessage(
      "moments",
      script([
        { plan: [{ content: "only then", status: "pending", priority: "low" }] },
        { usage: { input_tokens: 5, output_tokens: 5, cost_usd: 0.5 } },
        { ask: { shell: "true" } },
        { say: "later" },
      ]),
    );
    await show("moments");
    const { page } = bench;
    await page.waitForSelector(".ask-open [data-answer=once]");
    await client.sendMessage("moments", script([{ say: "queued turn" }]));
    await page.waitForSelector(".queue li");
    const asked = await sequenceOf("moments", "input.accepted", 2);
    await page.keyboard.press("y");
    await page.waitForSelector(".markdown >> text=queued turn");
    await page.waitForSelector(".head .status-idle");
    expect(await page.$(".queue")).toBeNull();
    await show("moments", `/e/${asked}`);
    await page.waitForSelector(".ask");
    await page.waitForSelector(".queue li");
    await page.waitForSelector(".side .plan-list >> text=only then");
    await page.waitForSelector(".head .status-waiting");
    expect(
      await page.$$(".composer textarea, [data-answer], .queue-buttons, [aria-label^='Restore']"),
    ).toEqual([]);
    for (const key of ["y", "a", "n"]) await page.keyboard.press(key);
    await page.click("[aria-label=Actions] >> nth=0");
    expect(await page.$$eval(".menu-list button", (all) => all.map((one) => one.textContent))).toEqual([
      "Fork from here f",
    ]);
    await page.keyboard.press("Escape");
    await show("moments", `/e/${await sequenceOf("moments", "turn.started", 1)}`);
    await page.waitForSelector(".past");
    expect(await page.$$(".side .plan-list, .ask, .queue")).toEqual([]);
    const { eventCount } = await client.sessions.get("moments");
    expect((await placeOf(page)).head).toBe(eventCount);
  });

  it(
    "22: each state of a stop is shown, of an agent that obeys nobody too",
    { timeout: 90_000 },
    async () => {
      const agent = join(import.meta.dirname, "fixtures", "stubborn-agent.mjs");
      await create("stubborn", [], { agent: "acp", command: [process.execPath, agent] });
      await bench.server.client.sendMessage("stubborn", "work");
      await bench.page.goto("about:blank");
      await bench.open("#/s/stubborn");
      const { page } = bench;
      await page.waitForSelector(".markdown >> text=I do not stop.");
      await page.click(".composer >> text=Stop");
      await page.waitForSelector(".composer >> text=Stopping…");
      await page.waitForSelector(".row >> text=interrupt.requested");
      await page.waitForSelector(".row:has-text('process.ended') >> text=SIGKILL", { timeout: 60_000 });
      await page.waitForSelector(".turn-row >> text=stopped");
      await page.waitForSelector(".composer >> text=Stopping…", { state: "detached" });
    },
  );

  it("4: a proxy's 503 while the server starts again is waited out, and asks nobody to log in", async () => {
    let answers = 0;
    await bench.page.route("**/ui/me", (route) =>
      ++answers > 2 ? route.continue() : route.fulfill({ status: 503, body: "no upstream" }),
    );
    await bench.page.goto("about:blank");
    await bench.open("#/");
    await bench.page.waitForSelector("text=The server does not answer");
    expect(await bench.page.locator("text=Log in").count()).toBe(0);
    await bench.page.waitForSelector(".frame >> text=Log out");
    await bench.page.unroute("**/ui/me");
  });
});

function isAt(at: number): boolean {
  const text = document.querySelector(".bar-place")?.textContent ?? "";
  return Number((text.split("/")[0] ?? "").replaceAll(/\D/g, "")) === at;
}
