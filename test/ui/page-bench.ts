import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openBrowser, requireBrowser, type TestBrowser } from "../support/browser.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { script } from "./script.ts";
import { seed, type Seed } from "./seed.ts";

/** A real server and a real browser that is logged in to its page. */
export interface PageBench {
  readonly server: TestServer;
  readonly browser: TestBrowser;
  readonly page: Page;
  /** Violations of the policy, errors of scripts, and requests to other origins. */
  readonly faults: string[];
  open(hash: string): Promise<void>;
  login(access?: { scope?: "read" | "answer"; session?: string }): Promise<void>;
  run(session: string, steps: readonly unknown[]): Promise<void>;
  close(): Promise<void>;
}

/** Fails where there is no browser. With `seeds` the server starts on a folder that has these sessions. */
export async function openPage(
  options: { seeds?: Iterable<Seed>; args?: readonly string[] } = {},
): Promise<PageBench> {
  const { path, reason } = requireBrowser();
  if (path === undefined) throw new Error(reason);
  const data = await mkdtemp(join(tmpdir(), "sluice-server-"));
  await seed(data, options.seeds ?? []);
  const server = await startServer({ args: ["--sandbox", "local", ...(options.args ?? [])], data });
  const browser = await openBrowser(path);
  const page = await browser.page();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (/^https?:/.test(url) && !url.startsWith(server.url)) faults.push(`request to ${url}`);
  });
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedScript|Trusted Type/i.test(message.text()))
      faults.push(message.text());
  });
  const bench: PageBench = {
    server,
    browser,
    page,
    faults,
    async open(hash) {
      await page.goto(`${server.url}/ui/${hash}`);
    },
    async login(access = {}) {
      const { code } = await server.client.tokens.code(access);
      await page.goto("about:blank");
      await page.goto(`${server.url}/ui/#k=${code}`);
      await page.waitForSelector(".frame >> text=Log out");
    },
    async run(session, steps) {
      for await (const event of server.client.messageStream(session, script(steps)))
        if (event.type === "turn.ended") return;
    },
    async close() {
      await browser.close();
      if (!options.seeds) return server.close();
      // Thousands of sessions need not be removed one by one: those of the test itself have ended their agents.
      await server.stop();
      await rm(data, { recursive: true, force: true });
    },
  };
  return bench;
}

/** Where the bar stands: the shown event and the head. */
export async function placeOf(page: Page): Promise<{ at: number; head: number }> {
  const text = (await page.textContent(".bar-place")) ?? "";
  const [at = 0, head = 0] = text.split("/").map((part) => Number(part.replaceAll(/\D/g, "")));
  return { at, head };
}

/** Waits until the page has every event of the session. */
export async function untilComplete(bench: PageBench, session: string): Promise<void> {
  const { eventCount } = await bench.server.client.sessions.get(session);
  await bench.page.waitForFunction(
    (count) => {
      const head = document.querySelector(".bar-place")?.textContent?.split("/")[1]?.replaceAll(/\D/g, "");
      return Number(head) >= count && document.querySelector(".gapless")?.textContent?.includes("✓");
    },
    eventCount,
    { timeout: 30_000 },
  );
}

/** Runs in the page: whether rows fill the box of the transcript. */
export function isFilled(): boolean {
  const box = document.querySelector(".transcript")?.getBoundingClientRect();
  const rows = [...document.querySelectorAll(".row")].map((row) => row.getBoundingClientRect());
  return (
    box !== undefined &&
    rows.some(({ top }) => top <= box.top + 1) &&
    rows.some(({ bottom }) => bottom >= box.bottom - 60)
  );
}
