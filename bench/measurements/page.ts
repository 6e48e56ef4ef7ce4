/* oxlint-disable unicorn/consistent-function-scoping -- a function that runs in the page has only its own parts */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { type Browser, chromium, type Page } from "playwright-core";
import { call } from "../clients/http.ts";
import type { RunningServer } from "../contenders/contender.ts";
import { untilIdle } from "../contenders/sluice.ts";
import { ROOT } from "../environment.ts";
import type { Measurement, Plan } from "../plan.ts";
import { quantile, type Row, toRow } from "../report/row.ts";

const CHROMIUM = "/usr/bin/chromium";
const LONG = 100_000;
const SEEKS = 20;
const RATE = 10_000;

/** (p) The page in a real browser: a long session, a flood against a page that does all on its main thread, its size. */
export const page: Measurement = {
  id: "p",
  title: "the page",
  async measure(plan) {
    const sizes = measureSizes();
    if (!existsSync(CHROMIUM))
      return [...sizes, missing(`${CHROMIUM} is missing; \`npm test -- --all\` installs it on Debian`)];
    const server = await plan.sluice.start();
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
    });
    try {
      return [
        ...(await measureLong(plan, server, browser)),
        ...(await measureFlood(plan, server, browser)),
        ...sizes,
      ];
    } finally {
      await browser.close();
      await server.stop();
    }
  },
};

function missing(note: string): Row {
  return { id: "p", what: "the page in a browser", unit: "", value: Number.NaN, verdict: "unknown", note };
}

async function measureLong(plan: Plan, server: RunningServer, browser: Browser): Promise<Row[]> {
  const session = await server.openSession();
  const url = session.prompt.url.replace(/\/messages$/, "");
  await session.flood(LONG);
  await untilIdle(url);
  await call("POST", `${url}/messages`, { message: '#script [{"say":"the last words"}]' });
  await untilIdle(url);
  const id = decodeURIComponent(url.split("/").at(-1) ?? "");
  const head = await session.head();
  const shown: number[] = [];
  const complete: number[] = [];
  const heaps: number[] = [];
  const seeks: number[] = [];
  for (let round = 0; round <= plan.rounds; round++) {
    plan.progress(`opening, round ${round} of ${plan.rounds}`);
    const tab = await browser.newPage();
    await tab.goto(`${server.url}/ui/#/`);
    await tab.waitForSelector(".session-row");
    const [last, whole] = await tab.evaluate(openSession, id);
    // The first round warms up.
    if (round > 0) {
      shown.push(last);
      complete.push(whole);
      heaps.push((await ownBytes(browser)) / 1e6);
    }
    for (let n = 0; n < (round > 0 ? SEEKS : 0); n++)
      seeks.push(
        await tab.evaluate(seekTo, { id, at: 1 + Math.floor((((n * 37) % 100) / 100) * (head - 2)) }),
      );
    await tab.close();
  }
  const at = "at 100k events";
  return [
    bounded({ what: `click to the last turn ${at}`, unit: "ms", rounds: shown }, 500),
    bounded({ what: `click to the whole index ${at}`, unit: "ms", rounds: complete }, 3_000),
    bounded({ what: `seek to an event ${at}`, unit: "ms", rounds: seeks }, 150),
    bounded({ what: `memory of the tab ${at}`, unit: "MB", rounds: heaps }, 150),
  ];
}

/** Runs in the page: milliseconds from the click to the last words, and to the proof that every event is here. */
async function openSession(id: string): Promise<[number, number]> {
  const until = async (isTrue: () => boolean): Promise<void> => {
    for (let frames = 0; frames < 6_000 && !isTrue(); frames++)
      await new Promise((resolve) => requestAnimationFrame(resolve));
  };
  const begun = performance.now();
  document.querySelector<HTMLElement>(`a[href="#/s/${encodeURIComponent(id)}"]`)?.click();
  await until(() =>
    [...document.querySelectorAll(".message:not(.message-user)")].some((one) =>
      one.textContent?.includes("the last words"),
    ),
  );
  const last = performance.now() - begun;
  await until(() => document.querySelector(".gapless")?.textContent?.includes("✓") === true);
  return [last, performance.now() - begun];
}

/** Runs in the page: milliseconds from the new address to the rows of that moment. */
async function seekTo({ id, at }: { id: string; at: number }): Promise<number> {
  const begun = performance.now();
  location.hash = `#/s/${encodeURIComponent(id)}/e/${at}`;
  const isThere = (): boolean => {
    const place = document.querySelector(".bar-place")?.textContent?.split("/")[0]?.replaceAll(/\D/g, "");
    const rows = [...document.querySelectorAll(".row")];
    // The first events of a session have no rows.
    const isEmpty = document.querySelector(".transcript .empty") !== null;
    return (
      Number(place) === at &&
      (rows.length > 0 || isEmpty) &&
      rows.every((row) => row.getAttribute("data-type") !== "")
    );
  };
  for (let frames = 0; frames < 600 && !isThere(); frames++)
    await new Promise((resolve) => requestAnimationFrame(resolve));
  return performance.now() - begun;
}

interface Smoothness {
  readonly frames: number[];
  readonly longest: number;
  readonly megabytes: number;
}

async function measureFlood(plan: Plan, server: RunningServer, browser: Browser): Promise<Row[]> {
  const seconds = plan.quick ? 10 : 60;
  const flood = async (open: (tab: Page, id: string) => Promise<unknown>): Promise<Smoothness> => {
    const session = await server.openSession({ deltas: 10 });
    const url = session.prompt.url.replace(/\/messages$/, "");
    const tab = await browser.newPage();
    await open(tab, decodeURIComponent(url.split("/").at(-1) ?? ""));
    await tab.evaluate(watchFrames);
    const step = [{ flood: { events: RATE / 20, bytes: 40 } }, { sleep: 50 }];
    const steps = Array.from({ length: seconds * 20 }, () => step).flat();
    const head = await session.head();
    const begun = performance.now();
    await call("POST", `${url}/messages`, { message: `#script ${JSON.stringify(steps)}` });
    await untilIdle(url);
    const took = (performance.now() - begun) / 1_000;
    plan.progress(`${Math.round(((await session.head()) - head) / took)} events/s`);
    const seen = await tab.evaluate(
      () => (globalThis as unknown as { smooth: { frames: number[]; longest: number } }).smooth,
    );
    const megabytes = (await ownBytes(browser)) / 1e6;
    await tab.close();
    return { ...seen, megabytes };
  };
  const own = await flood(async (tab, id) => {
    await tab.goto(`${server.url}/ui/#/s/${encodeURIComponent(id)}`);
    await tab.waitForSelector(".gapless >> text=✓");
  });
  const naive = await flood(async (tab, id) => {
    await tab.route("**/naive", (route) => route.fulfill({ contentType: "text/html", body: NAIVE }));
    await tab.goto(`${server.url}/naive#${encodeURIComponent(id)}`);
  });
  const at = `${RATE / 1_000}k events/s for ${seconds} s`;
  const against = (part: number): NonNullable<Row["against"]> => ({
    what: "all on the main thread",
    value: quantile(naive.frames, part),
  });
  return [
    bounded(
      { what: `frame p50 at ${at}`, unit: "ms", rounds: [quantile(own.frames, 0.5)], against: against(0.5) },
      17,
    ),
    bounded(
      {
        what: `frame p95 at ${at}`,
        unit: "ms",
        rounds: [quantile(own.frames, 0.95)],
        against: against(0.95),
      },
      34,
    ),
    bounded(
      {
        what: `longest task at ${at}`,
        unit: "ms",
        rounds: [own.longest],
        against: { what: "all on the main thread", value: naive.longest },
      },
      100,
    ),
    bounded({ what: `memory of the tab after ${at}`, unit: "MB", rounds: [own.megabytes] }, 250),
  ];
}

/** Runs in the page: the times between frames, and the longest task. */
function watchFrames(): void {
  const smooth = { frames: [] as number[], longest: 0 };
  (globalThis as unknown as { smooth: typeof smooth }).smooth = smooth;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) smooth.longest = Math.max(smooth.longest, duration);
  }).observe({ entryTypes: ["longtask"] });
  let last = performance.now();
  const next = (): void => {
    const now = performance.now();
    smooth.frames.push(now - last);
    last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}

/** A page as one would write it at first: every event is parsed and shown where the browser draws. */
const NAIVE = `<!doctype html><meta charset="utf-8"><pre id="text"></pre><ol id="list"></ol><script>
const stream = new EventSource("/v1/sessions/" + location.hash.slice(1) + "/events/sse?extensions=true");
let said = "";
stream.onmessage = ({ data }) => {
  const event = JSON.parse(data);
  if (event.type === "item.delta") said = (said + event.data.delta).slice(-4000);
  document.querySelector("#text").textContent = said;
  const row = document.createElement("li");
  row.textContent = event.sequence + " " + event.type;
  const list = document.querySelector("#list");
  list.append(row);
  if (list.children.length > 60) list.firstChild.remove();
};
</script>`;

function measureSizes(): Row[] {
  const folder = join(ROOT, "dist", "ui");
  const files = readdirSync(folder, { recursive: true })
    .map(String)
    .filter((file) => /\.(?:html|js|css|svg)$/.test(file));
  const index = readFileSync(join(folder, "index.html"), "utf8");
  const kilobytes = (chosen: readonly string[]): number =>
    chosen.reduce((sum, file) => sum + gzipSync(readFileSync(join(folder, file)), { level: 9 }).length, 0) /
    1_000;
  const first = files.filter((file) => file === "index.html" || index.includes(`/ui/${file}"`));
  return [
    bounded({ what: "first load, packed", unit: "KB", rounds: [kilobytes(first)] }, 70),
    bounded({ what: "all of the page, packed", unit: "KB", rounds: [kilobytes(files)] }, 190),
  ];
}

/** The memory that the busiest tab shares with nobody. */
async function ownBytes(browser: Browser): Promise<number> {
  const devtools = await browser.newBrowserCDPSession();
  const { processInfo } = (await devtools.send("SystemInfo.getProcessInfo")) as {
    processInfo: { type: string; id: number }[];
  };
  await devtools.detach();
  const own = processInfo
    .filter(({ type }) => type === "renderer")
    .map(({ id }) => Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, "utf8"))?.[1] ?? 0));
  return Math.max(...own) * 1024;
}

function bounded(row: Omit<Parameters<typeof toRow>[0], "id" | "target" | "reached">, most: number): Row {
  return toRow({ id: "p", ...row, target: `≤ ${most} ${row.unit}`, reached: ({ value }) => value <= most });
}
