import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPage, type PageBench, placeOf, untilComplete } from "./page-bench.ts";
import { script } from "./script.ts";

const PICTURE =
  "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC";

/** The headers of the page's own calls, which a request that is made by hand has not. */
const OWN = { "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty" };

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  await bench.browser.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

const clipboard = (): Promise<string> => bench.page.evaluate(() => navigator.clipboard.readText());

async function create(id: string, steps: readonly unknown[] = [], options: object = {}): Promise<void> {
  // A test may be tried twice on the same server.
  await bench.server.client.sessions.delete(id).catch(() => {});
  await bench.server.client.sessions.create(id, { agent: "scripted", ...options });
  if (steps.length > 0) await bench.server.client.sendMessage(id, script(steps));
}

async function show(id: string, rest = ""): Promise<void> {
  await bench.page.goto("about:blank");
  await bench.open(`#/s/${id}${rest}`);
  await bench.page.waitForSelector(".bar-place");
}

describe("reading", () => {
  it("9: pictures, reasoning, sub-agents, plans, compactions and retries have rows of their own", async () => {
    await create("kinds", [], { autoCheckpoint: true });
    await bench.run("kinds", [
      { plan: [{ content: "first step", status: "in_progress", priority: "low" }] },
      { think: "a thought" },
      { image: { data: PICTURE, mimeType: "image/png" } },
      { subagent: { name: "helper", steps: [{ say: "from inside" }] } },
      { compact: true },
      { fail: { kind: "overloaded", times: 1 } },
      { say: "# Title\n\n- one\n\n| a |\n|---|\n| b |\n\n```ts\nconst x = 1;\n```" },
    ]);
    await show("kinds");
    await untilComplete(bench, "kinds");
    const { page } = bench;
    await page.setViewportSize({ width: 1280, height: 2400 });
    for (const wanted of [
      ".row-plan >> text=first step",
      ".row-thought >> text=thought",
      ".row img.picture",
      ".row.depth-1 >> text=from inside",
      ".row >> text=compacted",
      ".row >> text=turn.retrying",
      ".markdown table",
      ".markdown pre .hl-keyword",
    ])
      await page.waitForSelector(wanted);
    await page.click(".nested");
    await page.waitForSelector(".row.depth-1", { state: "detached" });
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  it("8: lines that nobody knows and a very long one neither break nor freeze the page", async () => {
    await create("long-lines", [{ raw: "no json at all" }, { rawBytes: "/////w==" }]);
    await bench.run("long-lines", [
      { shell: "head -c 3000000 /dev/zero | tr '\\0' x" },
      { say: `${">".repeat(20_000)} deep\n\n${"[".repeat(20_000)}` },
      { say: "still here" },
    ]);
    await show("long-lines");
    await bench.page.waitForSelector(".markdown >> text=still here");
    expect(await bench.page.evaluate(() => document.querySelectorAll("*").length)).toBeLessThan(3_000);
    await bench.page.keyboard.press("v");
    await bench.page.focus(".transcript");
    await bench.page.keyboard.press("Home");
    await bench.page.waitForSelector(".row >> text=agent.unparsed");
    await bench.page.keyboard.press("v");
  });

  it("12: an item's link, the thread as markdown: copied", async () => {
    await show("kinds");
    await untilComplete(bench, "kinds");
    await bench.page.keyboard.press("m");
    await bench.page.waitForSelector(".toast >> text=copied");
    expect(await clipboard()).toContain("const x = 1;");
    await bench.page.keyboard.press("k");
    await bench.page.keyboard.press(".");
    await bench.page.waitForSelector(".toast >> text=Link to event");
    expect(await clipboard()).toMatch(/\/ui\/#\/s\/kinds\/e\/\d+$/);
  });

  it(
    "14: a seek into one turn of many events ends, and reads a part of it",
    { timeout: 120_000 },
    async () => {
      await create("flood");
      await bench.run("flood", [{ flood: { events: 30_000 } }, { say: "after the flood" }]);
      await show("flood");
      await untilComplete(bench, "flood");
      const { head } = await placeOf(bench.page);
      expect(head).toBeGreaterThan(30_000);
      const asked: string[] = [];
      bench.page.on("request", (request) => asked.push(request.url()));
      await bench.page.keyboard.press("ArrowLeft");
      await bench.page.waitForSelector(".past >> text=1 events later");
      await bench.open(`#/s/flood/e/${Math.floor(head / 2)}`);
      await bench.page.waitForSelector(".past");
      await bench.page.waitForFunction(() => document.querySelectorAll(".row").length > 0);
      expect(asked.length).toBeLessThan(60);
      await bench.page.keyboard.press("5");
      await bench.page.waitForSelector(".frame-cell:not(:empty) >> text=item.");
      expect(await bench.page.evaluate(() => document.querySelectorAll("*").length)).toBeLessThan(3_000);
    },
  );

  it("19: columns stay aligned by their sequence, scrolled and live", async () => {
    await create(
      "frames",
      Array.from({ length: 40 }, (_, n) => [{ say: `part ${n}` }, { sleep: 40 }]).flat(),
    );
    await show("frames", "?tab=frames");
    await bench.page.waitForSelector(".frame-row");
    const check = async (): Promise<number> => {
      const rows = await bench.page.$$eval(".frame-row", (list) =>
        list.map((row) => ({
          sequence: Number((row.querySelector(".frame-open") as HTMLElement).dataset["sequence"]),
          tops: [...row.children].map((cell) => Math.round(cell.getBoundingClientRect().top / 8)),
          cells: row.querySelectorAll(".frame-cell").length,
        })),
      );
      rows.forEach(({ sequence, cells }, index) => {
        expect(cells).toBe(4);
        if (index > 0) expect(sequence).toBe((rows[index - 1]?.sequence ?? 0) + 1);
      });
      return rows.length;
    };
    for (let round = 0; round < 5; round++) {
      expect(await check()).toBeGreaterThan(0);
      await bench.page.waitForTimeout(150);
    }
    await bench.page.evaluate(() => document.querySelector(".frames .lines")?.scrollTo(0, 0));
    await bench.page.waitForSelector(".frame-open[data-sequence='1']");
    expect(await check()).toBeGreaterThan(0);
    await bench.page.click("text=Compare the last 1,000");
    await bench.page.waitForSelector(".toast >> text=all the same bytes");
  });
});

describe("a page that stays open", () => {
  it("5: a hidden page holds no stream, and catches up when it is seen", { timeout: 60_000 }, async () => {
    await create("hidden");
    await bench.run("hidden", [{ say: "before" }]);
    await show("hidden");
    await untilComplete(bench, "hidden");
    const look = (state: string): Promise<void> =>
      bench.page.evaluate((value) => {
        Object.defineProperty(document, "visibilityState", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, state);
    const readers = async (): Promise<number> => {
      const text = await (await bench.server.fetch("/metrics")).text();
      return Number(/^sluice_stream_readers (\d+)/m.exec(text)?.[1] ?? -1);
    };
    const until = async (wanted: number): Promise<void> => {
      for (let tries = 0; tries < 100 && (await readers()) !== wanted; tries++)
        await bench.page.waitForTimeout(100);
      expect(await readers()).toBe(wanted);
    };
    await until(1);
    await look("hidden");
    await until(0);
    await bench.run("hidden", [{ say: "while nobody looked" }]);
    await look("visible");
    await bench.page.waitForSelector(".markdown >> text=while nobody looked");
    await untilComplete(bench, "hidden");
    expect(await bench.page.textContent(".gapless")).toBe("gapless ✓");
  });

  it("a server with another page is told, once it is back", async () => {
    await show("hidden");
    await untilComplete(bench, "hidden");
    await bench.page.route("**/ui/me", async (route) => {
      const response = await route.fetch({ headers: { ...(await route.request().allHeaders()), ...OWN } });
      await route.fulfill({ response, json: { ...(await response.json()), version: "99.0.0" } });
    });
    await bench.server.kill();
    await bench.page.waitForSelector(".live >> text=reconnecting");
    await bench.server.start();
    await bench.page.waitForSelector("[role=alert] >> text=another version");
    await bench.page.unroute("**/ui/me");
  });
});

describe("many pages", () => {
  it(
    "a hundred idle pages cost the server no polling but the list's stream",
    { timeout: 120_000 },
    async () => {
      // A page that is open in a tab, and the stream that 98 others hold: a real tab for each costs a minute.
      const pages = [await bench.browser.page(), await bench.browser.page()];
      const hangUp = new AbortController();
      const { signal } = hangUp;
      const watch = async (): Promise<void> => {
        const frames = bench.server.client.sessions.watch({ signal })[Symbol.asyncIterator]();
        while ((await frames.next()).value?.type !== "ready");
        void frames.next().catch(() => {});
      };
      const count = async (name: string): Promise<number> => {
        const text = await (await bench.server.fetch("/metrics")).text();
        const found = text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)`, "gm"));
        return [...found].reduce((sum, [, value]) => sum + Number(value), 0);
      };
      try {
        await Promise.all(Array.from({ length: 98 }, watch));
        for (const page of pages) {
          await page.goto(`${bench.server.url}/ui/#/`);
          await page.waitForSelector(".session-row, .sessions .empty");
        }
        const asked: string[] = [];
        for (const page of pages) page.on("request", (request) => asked.push(request.url()));
        const before = await count("sluice_http_requests_total");
        await bench.page.waitForTimeout(5_000);
        expect(asked).toEqual([]);
        // The looks at the figures are requests, too.
        expect((await count("sluice_http_requests_total")) - before).toBeLessThanOrEqual(2);
      } finally {
        hangUp.abort();
        for (const page of pages) await page.close();
      }
    },
  );
});

describe("strangers", () => {
  it("26: a page on another port of this host reads nothing and logs nobody in", async () => {
    const other = createServer((_request, response) => {
      response.setHeader("content-type", "text/html");
      response.end("<title>agent</title>");
    }).listen(0, "127.0.0.1");
    await once(other, "listening");
    const page = await bench.browser.page();
    try {
      await page.goto(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`);
      const tried = await page.evaluate(async (url) => {
        const attempt = (path: string, init: RequestInit = {}): Promise<string> =>
          fetch(`${url}${path}`, { credentials: "include", ...init }).then(
            async (response) => `${response.status} ${await response.text()}`,
            () => "refused",
          );
        return [
          await attempt("/v1/sessions"),
          await attempt("/ui/me"),
          await attempt("/ui/code", { method: "POST", body: "{}" }),
          await attempt("/v1/sessions/hidden/messages", {
            method: "POST",
            headers: { "content-type": "text/plain" },
            body: "{}",
          }),
          localStorage.getItem("sluice.page") ?? "nothing",
        ];
      }, bench.server.url);
      expect(tried).toEqual(["refused", "refused", "refused", "refused", "nothing"]);
    } finally {
      await page.close();
      other.close();
    }
  });

  it("an expired code, an unknown session and an event beyond the head say what to do", async () => {
    const page = await bench.browser.page();
    const fresh = await bench.browser.context.browser()?.newContext();
    const stranger = (await fresh?.newPage()) ?? page;
    await stranger.goto(`${bench.server.url}/ui/#k=notacode`);
    if (fresh) await stranger.waitForSelector(".problem >> text=sluice open");
    await page.goto(`${bench.server.url}/ui/#/s/nobody`);
    await page.waitForSelector(".problem >> text=nobody");
    await page.goto("about:blank");
    await page.goto(`${bench.server.url}/ui/#/s/hidden/e/999999`);
    await page.waitForSelector(".problem >> text=There is no event 999,999");
    await fresh?.close();
    await page.close();
  });

  it("25: nothing of all this broke the policy or left the origin", () => {
    expect(bench.faults).toEqual([]);
  });
});
