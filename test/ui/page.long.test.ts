import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/source-graph.mjs";
import { isFilled, openPage, type PageBench, placeOf, untilComplete } from "./page-bench.ts";
import { script } from "./script.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Any screen that has its content. */
const SHOWN =
  "#main .row, #main .page-scroll, #main .frame-row, .session-row, .timeline-pane, .files-pane, .terminal-pane, .usage-pane";

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  const { client } = bench.server;
  await client.sessions.create("shop", { agent: "scripted", title: "Fix the shop", autoCheckpoint: true });
  await bench.run("shop", [
    { plan: [{ content: "Look", status: "completed", priority: "high" }] },
    { think: "The total ignores the quantity." },
    { shell: "printf '\\033[31mred\\033[0m\\rRED\\n'" },
    { write: { path: "cart.ts", content: "const total = a.price;\n" } },
    { edit: { path: "cart.ts", old: "a.price", new: "a.price * a.qty" } },
    { subagent: { name: "helper", steps: [{ say: "inside" }] } },
    { say: "Done: **the total**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```ts\nconst x = 1;\n```" },
  ]);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

/** The rules of WCAG 2.0 to 2.2, levels A and AA. */
async function violations(): Promise<string[]> {
  await bench.page.evaluate(AXE);
  return bench.page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(
          where: Document,
          options: object,
        ): Promise<{ passes: unknown[]; violations: { id: string; nodes: { html: string }[] }[] }>;
      };
    };
    const tags = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];
    const found = await axe.run(document, { runOnly: { type: "tag", values: tags } });
    if (found.passes.length < 5) throw new Error("axe has looked at nothing");
    return found.violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
    );
  });
}

describe("the page", () => {
  it("7: shows every event of the log, each with a row", async () => {
    await bench.open("#/s/shop");
    await untilComplete(bench, "shop");
    await bench.page.keyboard.press("v");
    const types = new Set<string>();
    for await (const event of bench.server.client.events.iterate("shop", { extensions: true }))
      types.add(event.type);
    await bench.page.focus(".transcript");
    const shown = new Set<string>();
    await bench.page.keyboard.press("Home");
    await bench.page.waitForFunction(isFilled);
    for (let press = 0; press < 60 && shown.size < types.size; press++) {
      for (const type of await bench.page.$$eval(".row", (rows) =>
        rows.map((row) => row.getAttribute("data-type") ?? ""),
      ))
        shown.add(type);
      await bench.page.evaluate(() => document.querySelector(".transcript")?.scrollBy(0, 300));
      await bench.page.waitForFunction(isFilled);
    }
    await bench.page.keyboard.press("v");
    const joined = new Set(["item.delta", "item.completed", "model.ended", "permission.resolved"]);
    expect([...types].filter((type) => !shown.has(type) && !joined.has(type))).toEqual([]);
  });

  it("15: steps by event and by turn, and returns to live by one key", async () => {
    await bench.open("#/s/shop");
    await untilComplete(bench, "shop");
    const { head } = await placeOf(bench.page);
    await bench.page.keyboard.press("ArrowLeft");
    await bench.page.waitForFunction(
      (at) => document.querySelector(".bar-place")?.textContent?.startsWith(`${at} `),
      head - 1,
    );
    await bench.page.waitForSelector(".past >> text=1 events later");
    await bench.page.keyboard.press("l");
    await bench.page.waitForSelector(".past", { state: "detached" });
    expect((await placeOf(bench.page)).at).toBe(head);
  });

  it("12: an event's link opens at that event", async () => {
    await bench.open("#/");
    await bench.open("#/s/shop/e/20");
    await bench.page.waitForFunction(() =>
      document.querySelector(".bar-place")?.textContent?.startsWith("20 /"),
    );
    expect(await bench.page.$(".composer")).toBeNull();
  });

  it("13: the palette finds words anywhere in the session and says how many", async () => {
    await bench.open("#/s/shop");
    await untilComplete(bench, "shop");
    await bench.page.keyboard.press("Control+k");
    await bench.page.fill(".palette-input", "ignores the quantity");
    await bench.page.waitForSelector(".palette-total >> text=have these words");
    await bench.page.keyboard.press("Escape");
    await bench.page.waitForSelector("dialog", { state: "detached" });
  });

  it("20: a permission is answered by one key, and the turn goes on", async () => {
    await bench.server.client.sessions.create("asker", { agent: "scripted" });
    await bench.server.client.sendMessage(
      "asker",
      script([{ ask: { shell: "echo allowed" } }, { say: "went on" }]),
    );
    await bench.open("#/s/asker");
    await bench.page.waitForSelector(".ask-open [data-answer=once]");
    await bench.page.keyboard.press("y");
    await bench.page.waitForSelector(".message:not(.message-user) >> text=went on");
    expect(await bench.page.$(".ask-open")).toBeNull();
  });

  it("21: a message is sent, and its answer streams in", async () => {
    await bench.open("#/s/asker");
    await bench.page.waitForSelector(".composer textarea");
    await bench.page.keyboard.press("c");
    await bench.page.keyboard.type(script([{ say: "from the composer" }]));
    await bench.page.keyboard.press("Enter");
    await bench.page.waitForSelector(".markdown >> text=from the composer");
  });

  it(
    "4: a killed server in mid-turn leaves no gap and no double, without a reload",
    { timeout: 120_000 },
    async () => {
      await bench.server.client.sessions.create("killed", { agent: "scripted" });
      const steps = [
        ...Array.from({ length: 30 }, (_, n) => [{ say: `part ${n}` }, { sleep: 100 }]).flat(),
        { say: "the very end" },
      ];
      await bench.server.client.sendMessage("killed", script(steps));
      await bench.open("#/s/killed");
      await bench.page.waitForSelector(".message:not(.message-user) >> text=part 3");
      await bench.page.evaluate(() => ((globalThis as { marked?: true }).marked = true));
      await bench.server.kill();
      await bench.page.waitForSelector(".live >> text=reconnecting");
      await bench.server.start();
      await bench.page.waitForSelector(".message:not(.message-user) >> text=the very end", {
        timeout: 60_000,
      });
      await untilComplete(bench, "killed");
      expect(await bench.page.textContent(".gapless")).toBe("gapless ✓");
      expect(await bench.page.evaluate(() => (globalThis as { marked?: true }).marked)).toBe(true);
      const { eventCount } = await bench.server.client.sessions.get("killed");
      expect((await placeOf(bench.page)).head).toBe(eventCount);
    },
  );

  it("25: hostile strings in every field run nothing", { timeout: 60_000 }, async () => {
    const evil = `<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>[a](javascript:globalThis.hacked=1)\u202E\u001B]0;title\u0007${"w".repeat(5_000)}`;
    await bench.server.client.sessions.create("evil", { agent: "scripted", title: evil });
    await bench.run("evil", [
      { plan: [{ content: evil, status: "pending", priority: "low" }] },
      { think: evil },
      { say: evil },
      {
        say: `# ${evil}\n\n| ${evil} |\n|---|\n| x |\n\n![p](https://example.invalid/x.png)\n\n<b onclick="globalThis.hacked=1">x</b>`,
      },
      { shell: "printf '\\033]0;evil\\007<script>globalThis.hacked=1</script>\\033[31mred\\033[0m'" },
      { write: { path: "x.html", content: evil } },
      { raw: `{"not":"known ${"x".repeat(200_000)}"}` },
      { rawBytes: "/////w==" },
    ]);
    for (const hash of [
      "#/",
      "#/s/evil",
      ...["timeline", "files", "terminal", "frames", "usage"].map((tab) => `#/s/evil?tab=${tab}`),
    ]) {
      await bench.open(hash);
      await bench.page.waitForSelector(SHOWN);
      await bench.page.waitForTimeout(300);
      const { hacked, wide, nodes } = await bench.page.evaluate(() => ({
        hacked: (globalThis as { hacked?: number }).hacked,
        wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        nodes: document.querySelectorAll("*").length,
      }));
      expect({ hash, hacked, wide }).toEqual({ hash, hacked: undefined, wide: 0 });
      expect(nodes, hash).toBeLessThan(3_000);
    }
    expect(
      await bench.page.$$eval("a", (links) => links.filter((link) => /^javascript:/i.test(link.href)).length),
    ).toBe(0);
  });

  it("26: no token and no cookie is in the address, the storage, the document or a script's reach", async () => {
    await bench.open("#/s/shop");
    await untilComplete(bench, "shop");
    const cookies = await bench.browser.context.cookies();
    const secrets = [bench.server.token, ...cookies.map(({ value }) => value)];
    expect(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite }))).toEqual([
      { httpOnly: true, sameSite: "Strict" },
    ]);
    const reach = await bench.page.evaluate(() =>
      [
        location.href,
        document.cookie,
        JSON.stringify(localStorage),
        JSON.stringify(sessionStorage),
        document.documentElement.outerHTML,
      ].join("\n"),
    );
    for (const secret of secrets) expect(reach).not.toContain(secret);
    expect(reach).not.toContain("#k=");
  });

  it("320 px: nothing is wider than the screen", async () => {
    await bench.page.setViewportSize({ width: 320, height: 640 });
    for (const hash of ["#/", "#/s/shop", "#/s/shop?tab=usage", "#/new", "#/server"]) {
      await bench.open(hash);
      await bench.page.waitForSelector("#main h1, #main .row, #main .page-scroll, .session-row");
      const wide = await bench.page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect({ hash, wide }).toEqual({ hash, wide: 0 });
    }
    await bench.page.setViewportSize({ width: 1280, height: 720 });
  });

  it("an export opens without a server, and replays", { timeout: 60_000 }, async () => {
    const file = join(await mkdtemp(join(tmpdir(), "sluice-export-")), "shop.html");
    const { stdout } = await promisify(execFile)(
      join(ROOT, "bin", "sluice"),
      ["export", "--html", "shop", "--server", bench.server.url],
      { env: { ...process.env, SLUICE_TOKEN: bench.server.token }, maxBuffer: 1e8 },
    );
    expect(stdout).not.toContain(bench.server.token);
    await writeFile(file, stdout);
    const page = await bench.browser.page();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(`file://${file}`);
    await page.waitForSelector(".gapless >> text=gapless");
    await page.waitForSelector(".markdown >> text=the total");
    expect(await page.$(".composer")).toBeNull();
    await page.keyboard.press("Shift+ArrowLeft");
    await page.waitForSelector(".past");
    await page.keyboard.press("5");
    await page.waitForSelector(".frame-cell");
    expect(asked.filter((url) => !url.startsWith("file:"))).toEqual([]);
    await page.close();
    await rm(dirname(file), { recursive: true });
  });

  const screens = [
    "#/",
    "#/s/shop",
    "#/s/shop?tab=timeline",
    "#/s/shop?tab=files",
    "#/s/shop?tab=terminal",
    "#/s/shop?tab=frames",
    "#/s/shop?tab=usage",
    "#/new",
    "#/server",
    "#/s/nobody",
    "#/what",
    "#/s/shop/e/20",
    "#/s/evil",
  ];
  it.each(screens)("28: %s has no violation in either theme", async (hash) => {
    for (const colorScheme of ["light", "dark"] as const) {
      await bench.page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await bench.open(hash);
      await bench.page.waitForSelector(`#main h1, ${SHOWN}`);
      await bench.page.waitForTimeout(400);
      expect(await violations(), colorScheme).toEqual([]);
    }
  });

  it("27: a link that only reads has no control in the page", async () => {
    await bench.login({ scope: "read", session: "shop" });
    await bench.page.waitForSelector(".row");
    await untilComplete(bench, "shop");
    expect(
      await bench.page.$$(".composer, .menu, [data-answer], a[href='#/new'], a[href='#/server']"),
    ).toEqual([]);
    expect(await bench.page.textContent(".frame")).toContain("read only");
  });

  it("25, 26: nothing was refused by the policy, and no request left the origin", () => {
    expect(bench.faults).toEqual([]);
  });
});
