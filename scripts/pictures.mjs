import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { toAnimation } from "./animated-webp.mjs";
import { ensureBuilt, ensureChromium, ROOT, say } from "./setup.mjs";

/**
 * Photographs the page of a real server. `npm run pictures` makes the pictures of the documents; `npm run pictures --
 * FOLDER` makes one of every screen, in both themes, wide and narrow.
 */
await ensureBuilt();
await ensureChromium();
const [, , every] = process.argv;
const folder = every ?? join(ROOT, "docs", "pictures");
const OF_THE_DOCUMENTS = new Set(["transcript-light", "frames-light"]);
const WIDTHS = every === undefined ? [1280] : [1280, 320];
const agent = { agent: "acp", command: [process.execPath, join(ROOT, "scripts", "pictures-agent.mjs")] };
const data = mkdtempSync(join(tmpdir(), "sluice-pictures-"));
const sluice = join(ROOT, "bin", "sluice");
mkdirSync(folder, { recursive: true });

async function serve(port) {
  const args = ["serve", "--sandbox", "local", "--data", data, "--port", String(port)];
  const child = spawn(sluice, args, {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, SLUICE_TOKEN: "" },
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return { child, url: line.replace("sluice listening on ", "") };
}

let { child, url } = await serve(0);
const { createClient } = await import(join(ROOT, "dist", "client", "index.js"));
const token = readFileSync(join(data, "token"), "utf8").trim();
const client = createClient({ url, token });
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
  ],
});
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();

try {
  await perform();
  const { code } = await client.tokens.code();
  await page.goto(`${url}/ui/#k=${code}`);
  await page.waitForSelector(".session-row");
  const screens = {
    sessions: "#/",
    transcript: "#/s/checkout-fix",
    past: "#/s/checkout-fix/e/60",
    timeline: "#/s/checkout-fix/e/70?tab=timeline",
    files: "#/s/checkout-fix/e/70?tab=files",
    terminal: "#/s/checkout-fix?tab=terminal",
    frames: "#/s/checkout-fix/e/95?tab=frames",
    usage: "#/s/checkout-fix?tab=usage",
    new: "#/new",
    server: "#/server",
  };
  for (const [name, hash] of Object.entries(screens))
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: width === 320 ? 640 : 800 });
      await page.goto(`${url}/ui/${hash}`);
      await page.waitForTimeout(name === "server" ? 5_000 : 1_500);
      for (const colorScheme of ["light", "dark"]) {
        const file = `${name}-${colorScheme}${width === 320 ? "-320" : ""}`;
        if (every === undefined && !OF_THE_DOCUMENTS.has(file)) continue;
        await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
        await page.screenshot({ path: join(folder, `${file}.png`) });
      }
    }
  await killInMidTurn();
  say(`pictures are in ${folder}`);
} finally {
  await browser.close();
  // Agents outlive their server, so they are ended first.
  for (const id of ["nightly", "docs", "checkout-fix", "services"])
    await client.terminate(id).catch(() => {});
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
  rmSync(data, { recursive: true, force: true });
}

/** A server is killed while an agent works; the page goes on. An animated picture of it. */
async function killInMidTurn() {
  const size = { width: 960, height: 600 };
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await client.sessions.create("services", { ...agent, title: "Check all services" });
  await client.sendMessage("services", "Check all forty services");
  await page.goto(`${url}/ui/#/s/services`);
  const devtools = await page.context().newCDPSession(page);
  const frames = [];
  const shoot = async (ms) => {
    const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 45 });
    frames.push({ bytes: Buffer.from(data, "base64"), ms });
  };
  const said = (step) => page.waitForSelector(`.message >> text=Service ${step} of 40`, { timeout: 120_000 });
  for (const step of [3, 4, 5]) {
    await said(step);
    await shoot(500);
  }
  child.kill("SIGKILL");
  await once(child, "exit");
  await page.waitForSelector(".live >> text=reconnecting");
  await shoot(2_000);
  ({ child } = await serve(new URL(url).port));
  await page.waitForSelector(".live >> text=live");
  await shoot(1_000);
  for (const step of [20, 30]) {
    await said(step);
    await shoot(600);
  }
  await said(40);
  await page.waitForSelector(".composer >> text=Send");
  await shoot(2_500);
  writeFileSync(join(folder, "killed.webp"), toAnimation(frames, size));
}

async function perform() {
  const create = (id, title, more = {}) => client.sessions.create(id, { ...agent, title, ...more });
  await create("nightly", "Nightly upgrade of packages");
  await run("nightly", "Upgrade the packages");
  await create("docs", "Describe the API");
  await run("docs", "Describe every route of the API");
  await create("checkout-fix", "Fix the failing checkout test", { autoCheckpoint: true });
  await run("checkout-fix", "Fix the failing checkout test. It has been red since the last release.");
  await client.sendMessage("checkout-fix", "Good. Deploy it.");
  for await (const event of client.subscribe("checkout-fix"))
    if (event.type === "permission.requested") return;
}

async function run(session, prompt) {
  for await (const event of client.messageStream(session, prompt)) if (event.type === "turn.ended") return;
}
