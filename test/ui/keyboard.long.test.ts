import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPage, type PageBench, untilComplete } from "./page-bench.ts";
import { script } from "./script.ts";

let bench: PageBench;
const spoken: string[] = [];
beforeAll(async () => {
  bench = await openPage();
  bench.page.on("console", (message) => spoken.push(message.text()));
  await bench.page.addInitScript(keepAnnouncements);
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

/** Everything that a screen reader was told. */
function keepAnnouncements(): void {
  const told: string[] = [];
  (globalThis as { told?: string[] }).told = told;
  new MutationObserver(() => {
    const words = document.querySelector(".sr-only[aria-live]")?.textContent ?? "";
    if (words !== "" && told.at(-1) !== words) told.push(words);
  }).observe(document, { subtree: true, childList: true, characterData: true });
}

/** Whether each dialog was open when it came. An observer is called before the browser delivers the next key. */
function keepOpenness(): void {
  const openness: boolean[] = [];
  (globalThis as { openness?: boolean[] }).openness = openness;
  new MutationObserver((changes) => {
    for (const added of changes.flatMap(({ addedNodes }) => [...addedNodes]))
      if (added instanceof HTMLDialogElement) openness.push(added.open);
  }).observe(document, { subtree: true, childList: true });
}

async function create(id: string, steps: readonly unknown[]): Promise<void> {
  // A test may be tried twice on the same server.
  await bench.server.client.sessions.delete(id).catch(() => {});
  await bench.server.client.sessions.create(id, { agent: "scripted" });
  await bench.run(id, steps);
}

describe("without a mouse", () => {
  it("28: everything of a session by keyboard alone; asks, ends and errors are announced, deltas are not", async () => {
    await create("keys", [{ say: "hello" }]);
    const { page } = bench;
    await page.goto("about:blank");
    await bench.open("#/");
    await page.waitForSelector(".session-row.selected");
    await page.keyboard.press("f");
    await page.keyboard.type("keys");
    await page.waitForFunction(() => document.querySelectorAll(".session-row").length === 1);
    await page.keyboard.press("Tab");
    await page.focus(".sessions .lines");
    await page.keyboard.press("Enter");
    await untilComplete(bench, "keys");
    await page.keyboard.press("c");
    const steps = [
      { say: "many small words" },
      { ask: { shell: "true" } },
      { fail: { kind: "terminal", times: 1 } },
    ];
    await page.keyboard.insertText(script(steps));
    await page.keyboard.press("Control+Enter");
    await page.waitForSelector(".ask-open");
    await page.keyboard.press("Escape");
    await page.keyboard.press("y");
    await page.waitForSelector(".turn-row .status-failed");
    const told = await page.evaluate(() => (globalThis as { told?: string[] }).told ?? []);
    expect(told.some((words) => words.startsWith("The agent asks:"))).toBe(true);
    expect(told.some((words) => /^(?:Turn 2 ended: failed|Error:)/.test(words))).toBe(true);
    expect(told.join()).not.toContain("small words");
    for (const [key, shown] of [
      ["2", ".timeline-pane"],
      ["3", ".files-pane"],
      ["4", ".terminal-pane"],
      ["5", ".frame-row"],
      ["6", ".usage-pane"],
      ["1", ".row"],
    ] as const) {
      await page.keyboard.press(key);
      await page.waitForSelector(shown);
    }
    await page.keyboard.press("k");
    await page.waitForSelector(".row.selected");
    await page.keyboard.press("e");
    await page.keyboard.press("K");
    await page.waitForSelector(".past");
    await page.keyboard.press("l");
    await page.waitForSelector(".past", { state: "detached" });
    await page.keyboard.press("g");
    await page.waitForSelector(".palette-input");
    await page.keyboard.type("5");
    await page.keyboard.press("Enter");
    await page.waitForFunction(isAt, 5);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".past", { state: "detached" });
    await page.keyboard.press("?");
    await page.waitForSelector("dialog .keys kbd");
    const keys = await page.$$eval("dialog .keys kbd", (all) => all.map((one) => one.textContent));
    for (const key of ["j", "k", "J", "K", "e", "y", "a", "n", "c", "space", "l", "r", ".", "f", "t", "/"])
      expect(keys, key).toContain(key);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    const before = await page.evaluate(() => document.documentElement.outerHTML.length);
    await page.keyboard.press("t");
    await page.waitForSelector("button[aria-label^='Theme: ']:not([aria-label='Theme: auto'])");
    expect(before).toBeGreaterThan(0);
    await page.keyboard.press("h");
    await page.waitForSelector(".session-row");
    await page.keyboard.press("Escape");
    await page.focus(".sessions .lines");
    await page.keyboard.press("n");
    await page.waitForSelector(".new-session");
  });

  it("a dialog is open as soon as it is there, so that an Escape at once closes it", async () => {
    const { page } = bench;
    await page.goto("about:blank");
    await bench.open("#/s/keys");
    await untilComplete(bench, "keys");
    await page.evaluate(keepOpenness);
    for (const _ of [1, 2]) {
      await page.keyboard.press("?");
      await page.waitForSelector("dialog[open]");
      await page.keyboard.press("Escape");
      await page.waitForSelector("dialog", { state: "detached" });
    }
    expect(await page.evaluate(() => (globalThis as { openness?: boolean[] }).openness)).toEqual([
      true,
      true,
    ]);
  });

  it("26: no token in history or console, and a logout ends the login", async () => {
    const { page, server } = bench;
    await bench.open("#/s/keys");
    await untilComplete(bench, "keys");
    const cookies = await bench.browser.context.cookies();
    const secrets = [server.token, ...cookies.map(({ value }) => value)];
    const urls = await page.evaluate(() =>
      (globalThis as unknown as { navigation: { entries(): { url: string }[] } }).navigation
        .entries()
        .map(({ url }) => url),
    );
    for (const text of [...urls, ...spoken]) {
      expect(text).not.toContain("#k=");
      for (const secret of secrets) expect(text).not.toContain(secret);
    }
    await page.click("text=Log out");
    await page.waitForSelector("h1 >> text=Log in");
    const status = await page.evaluate(async () => (await fetch("/v1/sessions")).status);
    expect(status).toBe(401);
    await page.goto("about:blank");
    await bench.open("#/s/keys");
    await page.waitForSelector(".problem >> text=sluice open");
    await bench.login();
  });
});

function isAt(at: number): boolean {
  const text = document.querySelector(".bar-place")?.textContent ?? "";
  return Number((text.split("/")[0] ?? "").replaceAll(/\D/g, "")) === at;
}
