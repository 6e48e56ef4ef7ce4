import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { openPage, type PageBench } from "./page-bench.ts";
import { script } from "./script.ts";

let bench: PageBench;
beforeAll(async () => {
  bench = await openPage();
  await bench.login();
}, 120_000);
afterAll(() => bench?.close());

async function create(id: string, steps: readonly unknown[] = []): Promise<void> {
  // A test may be tried twice on the same server.
  await bench.server.client.sessions.delete(id).catch(() => {});
  await bench.server.client.sessions.create(id, { agent: "scripted" });
  if (steps.length > 0) await bench.server.client.sendMessage(id, script(steps));
}

async function show(page: Page, id: string, rest = ""): Promise<void> {
  await page.goto("about:blank");
  await page.goto(`${bench.server.url}/ui/#/s/${id}${rest}`);
  await page.waitForSelector(".bar-place");
}

/** The last row's distance below the transcript's box, in pixels; rows that end inside of it give no more than 0. */
function belowTheEnd(): number {
  const box = document.querySelector(".transcript");
  const row = [...document.querySelectorAll(".row")].at(-1);
  if (!box || !row) return Number.POSITIVE_INFINITY;
  return row.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom;
}

describe("what an agent would hide", () => {
  it("20, 25: a request shows the whole of its command: nothing beside the screen, cut, joined to a comment or turned", async () => {
    const { page } = bench;
    const commands = {
      far: `echo ok${" ".repeat(1_900)}; echo FAR-END`,
      lines: "echo ok # a comment\necho SECOND-LINE",
      turned: "echo \u202E dne-denrut",
      long: `echo ${"x ".repeat(4_000)}; echo LONG-END`,
    };
    for (const [name, command] of Object.entries(commands)) {
      await create(name, [{ ask: { shell: command } }]);
      for (const tab of name === "far" ? ["usage", "transcript"] : ["transcript"]) {
        await show(page, name, `?tab=${tab}`);
        const request = await page.waitForSelector(".ask-open .code");
        const wide = await request.evaluate((code) => code.scrollWidth - code.clientWidth);
        expect({ name, tab, wide }).toEqual({ name, tab, wide: 0 });
        const text = await request.innerText();
        expect(text).not.toContain("\u202E");
        if (name === "far") expect(text).toContain("⟨1900 blanks⟩");
        if (name === "lines") expect(text).toMatch(/comment\necho SECOND-LINE/);
        if (name === "far" || name === "long") expect(text).toContain(`${name.toUpperCase()}-END`);
      }
    }
  });

  it("a request that is longer than the page shows says so", async () => {
    await create("longest", [{ ask: { shell: `echo ${"x".repeat(60_000)}` } }]);
    for (const tab of ["transcript", "usage"]) {
      await show(bench.page, "longest", `?tab=${tab}`);
      await bench.page.waitForSelector(".ask-open >> text=This is the beginning alone");
    }
  });
});

describe("two people", () => {
  it("20: two tabs answer the same request: one answer counts, and the other tab is told", async () => {
    await create("both", [{ ask: { shell: "echo allowed" } }, { sleep: 60_000 }]);
    const other = await bench.browser.page();
    try {
      for (const page of [bench.page, other]) {
        await show(page, "both");
        await page.waitForSelector(".ask-open [data-answer=once]");
      }
      // Both answers leave their pages before either arrives.
      let held: (() => void)[] = [];
      const both = new Promise<void>((resolve) => {
        for (const page of [bench.page, other])
          void page.route("**/permissions/**", async (route) => {
            await new Promise<void>((go) => {
              held.push(go);
              if (held.length === 2) resolve();
            });
            await route.continue();
          });
      });
      await bench.page.click("[data-answer=once]");
      await other.click("[data-answer=reject]");
      await both;
      for (const go of held) go();
      held = [];
      const told = await Promise.all(
        [bench.page, other].map(async (page) => {
          await page.waitForSelector(".ask-open", { state: "detached" });
          return page
            .waitForSelector(".toast-bad >> text=already resolved", { timeout: 3_000 })
            .then(() => 1)
            .catch(() => 0);
        }),
      );
      expect(told.toSorted()).toEqual([0, 1]);
      const events = await bench.server.client.getEvents("both", { extensions: true });
      expect(events.filter(({ type }) => type === "permission.resolved")).toHaveLength(1);
    } finally {
      for (const page of [bench.page, other]) await page.unroute("**/permissions/**");
      await other.close();
    }
  });

  it("27: a link that only reads sees another's request and answers nothing, also by hand", async () => {
    await create("watched", [{ ask: { shell: "echo allowed" } }]);
    const fresh = await bench.browser.context.browser()?.newContext();
    if (!fresh) throw new Error("no fresh browser");
    try {
      const page = await fresh.newPage();
      const { code } = await bench.server.client.tokens.code({ scope: "read", session: "watched" });
      await page.goto(`${bench.server.url}/ui/#k=${code}`);
      await page.waitForSelector(".frame >> text=Log out");
      await show(page, "watched");
      await page.waitForSelector(".ask-open");
      for (const key of ["y", "a", "n", "f", "c"]) await page.keyboard.press(key);
      expect(await page.$$("[data-answer], .composer textarea, [aria-label=Actions]")).toEqual([]);
      const [pending] = (await bench.server.client.sessions.get("watched")).pendingActions;
      const statuses = await page.evaluate(async (id) => {
        const headers = {
          "sluice-page": localStorage.getItem("sluice.page") ?? "",
          "content-type": "application/json",
        };
        const ask = async (path: string, init: RequestInit = {}): Promise<number> =>
          (await fetch(path, { headers, ...init })).status;
        return [
          await ask("/v1/sessions/watched"),
          await ask(`/v1/sessions/watched/permissions/${id}/reply`, {
            method: "POST",
            body: '{"reply":"once"}',
          }),
          await ask("/v1/sessions/watched/messages", { method: "POST", body: '{"message":"x"}' }),
          await ask("/v1/sessions/both"),
        ];
      }, pending?.id ?? "");
      expect(statuses[0]).toBe(200);
      for (const status of statuses.slice(1)) expect([403, 404]).toContain(status);
      expect((await bench.server.client.sessions.get("watched")).pendingActions).toHaveLength(1);
    } finally {
      await fresh.close();
    }
  });

  it("1: a link that is pasted into an open page logs in; a used one changes nothing for who is logged in", async () => {
    const fresh = await bench.browser.context.browser()?.newContext();
    if (!fresh) throw new Error("no fresh browser");
    try {
      const page = await fresh.newPage();
      await page.goto(`${bench.server.url}/ui/`);
      await page.waitForSelector("h1 >> text=Log in");
      const { code } = await bench.server.client.tokens.code();
      const paste = (): Promise<void> =>
        page.evaluate((hash) => {
          location.hash = hash;
        }, `k=${code}`);
      await paste();
      await page.waitForSelector(".session-row");
      expect(page.url()).not.toContain("k=");
      await paste();
      await page.waitForSelector(".toast-bad");
      expect(await page.$(".session-row")).not.toBeNull();
      expect(page.url()).not.toContain("k=");
    } finally {
      await fresh.close();
    }
  });
});

describe("a page whose surroundings change", () => {
  it("a narrower window, and a row that grows by itself, keep the end of the transcript in sight", async () => {
    const { page } = bench;
    await bench.server.client.sessions.delete("narrow").catch(() => {});
    await bench.server.client.sessions.create("narrow", { agent: "scripted" });
    await bench.run("narrow", [
      ...Array.from({ length: 12 }, (_, n) => ({ say: `part ${n}: ${"some words ".repeat(60)}` })),
      { say: "the last words" },
    ]);
    await show(page, "narrow");
    await page.waitForSelector(".markdown >> text=the last words");
    for (const width of [320, 1_280, 500]) {
      await page.setViewportSize({ width, height: 640 });
      await expect.poll(() => page.evaluate(belowTheEnd)).toBeLessThanOrEqual(0);
    }
    // Somebody who has turned back stays there.
    await page.mouse.move(250, 300);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(() => {
      const box = document.querySelector(".transcript") as Element;
      return box.scrollTop + box.clientHeight < box.scrollHeight - 100;
    });
    await page.setViewportSize({ width: 480, height: 640 });
    await bench.run("narrow", [{ say: "nobody is pulled to this" }]);
    await page.waitForFunction(() => document.querySelector(".bar-place")?.textContent?.includes("/"));
    expect(await page.evaluate(belowTheEnd)).toBeGreaterThan(0);
    await page.setViewportSize({ width: 1_280, height: 720 });
  });

  it(
    "a server killed while a dialog is open: the dialog says so, keeps what was written, and works when it is back",
    { timeout: 90_000 },
    async () => {
      const { page, server } = bench;
      await create("doomed");
      await show(page, "doomed");
      await page.click("[aria-label=Actions] >> nth=0");
      await page.click(".menu-list >> text=Delete");
      await page.fill("dialog input", "doomed");
      await server.kill();
      await page.click("dialog .danger");
      await page.waitForSelector("dialog [role=alert]");
      expect(await page.inputValue("dialog input")).toBe("doomed");
      expect(page.url()).toContain("#/s/doomed");
      await server.start();
      await page.click("dialog .danger");
      await page.waitForSelector(".sessions");
      await page.waitForSelector(".toast >> text=Deleted");
      await expect(server.client.sessions.get("doomed")).rejects.toThrow();
    },
  );

  it("25: nothing of all this broke the policy or left the origin", () => {
    expect(bench.faults).toEqual([]);
  });
});
