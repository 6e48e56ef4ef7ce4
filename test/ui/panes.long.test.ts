import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPage, type PageBench, untilComplete } from "./page-bench.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const HOSTILE = "<img src=x onerror=alert(1)>";

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  const { client } = bench.server;
  await client.sessions.create("work", { agent: "scripted", autoCheckpoint: true });
  await bench.run("work", [
    { shell: "git init -q . && printf '\\033[31mred\\033[0m\\n10%%\\r100%%\\n'" },
    { usage: { input_tokens: 100, output_tokens: 5, cost_usd: 0.25 } },
    { write: { path: "cart.ts", content: "const total = a.price;\n" } },
    { subagent: { name: HOSTILE, steps: [{ shell: "echo inside" }] } },
    { say: "one" },
  ]);
  await bench.run("work", [
    { edit: { path: "cart.ts", old: "a.price", new: "a.price * a.qty" } },
    { shell: "seq 1 6000 > long.txt; seq 1 5000" },
    { parallel: [{ shell: "exit 3" }, { shell: "true" }] },
    { say: "two" },
  ]);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

async function open(tab: string, event?: number): Promise<void> {
  const place = event === undefined ? "" : `/e/${event}`;
  await bench.page.goto("about:blank");
  await bench.open(`#/s/work${place}?tab=${tab}`);
  await untilComplete(bench, "work");
}

/** The sequence of the first event of a type, or of the last. */
async function sequenceOf(type: string, which: "first" | "last" = "first"): Promise<number> {
  const found: number[] = [];
  for await (const event of bench.server.client.events.iterate("work", { extensions: true }))
    if (event.type === type) found.push(event.sequence);
  return (which === "first" ? found[0] : found.at(-1)) ?? 0;
}

const lines = (word: string): string => Array.from({ length: 2_500 }, (_, n) => `${word} ${n}`).join("\n");

const countNodes = (): Promise<number> => bench.page.evaluate(() => document.querySelectorAll("*").length);

describe("the panes", () => {
  it("9: the timeline has a lane for each sub-agent, and a bar selects its event everywhere", async () => {
    await open("timeline");
    const { page } = bench;
    await page.waitForSelector(`.time-lane-name >> text=${HOSTILE}`);
    expect(await page.$$eval(".time-lane-name", (lanes) => lanes.map((lane) => lane.textContent))).toEqual(
      expect.arrayContaining(["main", "model", "tools", "people"]),
    );
    await page.click(".bar-line >> text=cart.ts >> nth=0");
    const chosen = await page.textContent(".bar-line.selected .bar-name");
    expect(chosen).toContain("cart.ts");
    expect(await page.$(".bar-chosen")).not.toBeNull();
    await page.keyboard.press("1");
    await page.waitForSelector(".row.selected >> text=cart.ts");
  });

  it("9: the timeline is driven by keys: lanes, bars, zoom, and the moment of a bar", async () => {
    await open("timeline");
    const { page } = bench;
    await page.waitForSelector(".board .lines");
    const bars = (): Promise<number> =>
      page.$eval(".timeline-pane h2 .muted", (count) => Number(count.textContent));
    const all = await bars();
    await page.focus(".board .lines");
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector(".bar-line.selected >> text=turn 1");
    for (let press = 0; press < 3; press++) await page.keyboard.press("+");
    await page.waitForSelector(".totals >> text=interval");
    expect(await bars()).toBeLessThan(all);
    await page.keyboard.press("0");
    await page.waitForSelector(".totals >> text=whole session");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".past");
  });

  it("9: a drag over the lanes zooms to it", async () => {
    await open("timeline");
    const { page } = bench;
    const box = await (await page.waitForSelector(".board .lines")).boundingBox();
    if (!box) throw new Error("the lanes have no place on the screen");
    await page.mouse.move(box.x + box.width / 2, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width - 20, box.y + 10, { steps: 4 });
    await page.mouse.up();
    await page.waitForSelector(".totals >> text=interval");
    await page.click("text=Whole session");
    await page.waitForSelector(".totals >> text=whole session");
  });

  it("10: the terminal draws colours and carriage returns, and only the visible lines exist", async () => {
    await open("terminal", await sequenceOf("turn.ended"));
    const { page } = bench;
    await page.waitForSelector(".term-output >> text=100%");
    expect(await page.textContent(".term-output .fg-ansi-red")).toBe("red");
    expect(await page.$(".term-output >> text=10%100%")).toBeNull();
    await open("terminal");
    await page.waitForSelector(".term-output >> text=5000");
    expect(await countNodes()).toBeLessThan(3_000);
  });

  it("11: diffs of this turn, of all, and since a checkpoint, with the words marked", async () => {
    await open("files");
    const { page } = bench;
    await page.waitForSelector(".change .diff mark");
    expect(
      await page.$$eval(".change .diff-add mark", (marks) => marks.map((mark) => mark.textContent).join("")),
    ).toContain("a.qty");
    await page.click("role=button[name='All']");
    await page.waitForSelector(".changes >> text=as recorded at event");
    await page.waitForSelector(".change >> text=long.txt");
    const values = await page.$$eval(".changes option", (options) =>
      options.map((option) => (option as HTMLOptionElement).value),
    );
    await page.selectOption(".changes select", values[1] ?? "");
    await page.waitForSelector(".changes >> text=From that checkpoint");
    await page.waitForSelector(".change >> text=cart.ts");
    expect(await page.$(".change >> text=.git/")).toBeNull();
    expect(await countNodes()).toBeLessThan(3_000);
  });

  it("11: a diff of 5,000 lines has few elements, from its first line to its last", async () => {
    const { client } = bench.server;
    const id = `big-${Date.now()}`;
    await client.sessions.create(id, { agent: "scripted" });
    await bench.run(id, [
      { write: { path: "big.txt", content: lines("old") } },
      { write: { path: "big.txt", content: lines("new") } },
      { say: "rewritten" },
    ]);
    await bench.page.goto("about:blank");
    await bench.open(`#/s/${id}?tab=files`);
    const { page } = bench;
    await page.waitForSelector(".change .diff");
    const change = page.locator(".change", { hasText: "−2500" }).last();
    for (let press = 0; press < 60; press++) {
      expect(await countNodes()).toBeLessThan(3_000);
      const more = change.locator("text=Show the next");
      if ((await more.count()) === 0) break;
      await more.click();
    }
    await change.locator(".diff-text >> text=new 2499").waitFor();
    await change.locator("text=lines before").click();
    expect(await countNodes()).toBeLessThan(3_000);
  });

  it("16: files, output and usage are those of the moment, and nothing can be sent from it", async () => {
    const { page } = bench;
    const first = await sequenceOf("checkpoint.created");
    await open("files", first);
    await page.waitForSelector(".files-tree >> text=as of turn 1");
    await page.waitForSelector(".tree-line >> text=cart.ts");
    expect(await page.$(".tree-line >> text=long.txt")).toBeNull();
    expect(await page.$(".ports")).toBeNull();
    await page.click(".tree-line >> text=cart.ts");
    await page.waitForSelector(".file-line >> text=const total = a.price;");
    await open("files", await sequenceOf("turn.started"));
    await page.waitForSelector(".files-tree >> text=No checkpoint lies before this moment");
    await open("terminal", first);
    await page.waitForSelector(".terminal-pane >> text=This is the past");
    expect(await page.$(".command-line")).toBeNull();
    await open("usage", first);
    await page.waitForSelector(".usage-pane .numbers >> text=$0.25");
    expect(await page.$$eval(".usage-pane .numbers tbody", (tables) => tables[1]?.children.length)).toBe(1);
  });

  it("24: a command runs in the sandbox, and its output comes from the log", async () => {
    await open("terminal");
    const { page } = bench;
    await page.fill(".command-line input", "echo from-$((40 + 2)); exit 4");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".term-output >> text=from-42");
    await page.waitForSelector(".term-prompt >> text=exit 4");
    await page.keyboard.press("ArrowUp");
    expect(await page.inputValue(".command-line input")).toBe("echo from-$((40 + 2)); exit 4");
  });

  it("shows the live files without starting a sandbox", async () => {
    const { client } = bench.server;
    await client.sessions.create("fresh", { agent: "scripted" });
    await bench.page.goto("about:blank");
    await bench.open("#/s/fresh?tab=files");
    await bench.page.waitForSelector(".files-tree >> text=has no sandbox now");
    const types = (await client.getEvents("fresh", { extensions: true })).map(({ type }) => type);
    expect(types.filter((type) => type.startsWith("sandbox."))).toEqual([]);
    await open("files");
    await bench.page.waitForSelector(".tree-line >> text=long.txt");
    await bench.page.click(".tree-line >> text=long.txt");
    await bench.page.waitForSelector(".file-line >> text=1");
    expect(await countNodes()).toBeLessThan(3_000);
  });

  it("shows the server's figures", async () => {
    await bench.open("#/server");
    await bench.page.waitForSelector(".server-pane >> text=✓ ok");
    await bench.page.waitForSelector(".figures >> text=append failures");
    await bench.page.waitForSelector(".machine-agents >> text=scripted");
  });

  it.each(["light", "dark"] as const)(
    "28: no violation in the theme %s, with content and at 320 pixels",
    async (colorScheme) => {
      const { page } = bench;
      await page.emulateMedia({ colorScheme });
      for (const width of [1280, 320]) {
        await page.setViewportSize({ width, height: 800 });
        for (const tab of ["timeline", "files", "terminal", "usage"]) {
          await open(tab);
          await page.waitForSelector(`.${tab}-pane`);
          await page.evaluate(AXE);
          expect([tab, width, await violations()]).toEqual([tab, width, []]);
          expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
        }
      }
      await page.setViewportSize({ width: 1280, height: 800 });
    },
  );

  it("25: nothing of all this broke the policy or left the origin", () => {
    expect(bench.faults).toEqual([]);
  });
});

function violations(): Promise<string[]> {
  return bench.page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    const found = await axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] });
    return found.violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`,
    );
  });
}
