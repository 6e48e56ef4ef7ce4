import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { ensureBuilt, ensureChromium, ROOT, say } from "./setup.mjs";

/** Photographs every screen of the page, in both themes, from a real server: `npm run pictures`. */
await ensureBuilt();
await ensureChromium();
const folder = join(ROOT, "docs", "pictures");
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
    frames: "#/s/checkout-fix?tab=frames",
    usage: "#/s/checkout-fix?tab=usage",
    new: "#/new",
    server: "#/server",
  };
  for (const [name, hash] of Object.entries(screens)) {
    await page.goto(`${url}/ui/${hash}`);
    await page.waitForTimeout(name === "server" ? 5_000 : 900);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await page.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) });
    }
  }
  await killInMidTurn();
  say(`pictures are in ${folder}`);
} finally {
  await browser.close();
  child.kill("SIGTERM");
  if (child.exitCode === null) await once(child, "exit");
  rmSync(data, { recursive: true, force: true });
}

/** Three frames of a server that is killed while an agent works, and of the page that goes on. */
async function killInMidTurn() {
  await client.sessions.create("long-work", { agent: "scripted", title: "A long turn" });
  const steps = Array.from({ length: 40 }, (_, n) => [
    { say: `Step ${n + 1} is done.` },
    { sleep: 150 },
  ]).flat();
  await client.sendMessage("long-work", `#script ${JSON.stringify(steps)}`);
  await page.goto(`${url}/ui/#/s/long-work`);
  const said = ".message:not(.message-user) >> text=Step";
  await page.waitForSelector(`${said} 5 is`);
  const shot = (name) => page.screenshot({ path: join(folder, `killed-${name}.png`) });
  await shot("1-before");
  child.kill("SIGKILL");
  await once(child, "exit");
  await page.waitForSelector(".live >> text=reconnecting");
  await shot("2-killed");
  ({ child } = await serve(new URL(url).port));
  await page.waitForSelector(`${said} 40 is`, { timeout: 60_000 });
  await page.waitForSelector(".live >> text=live");
  await shot("3-after");
}

async function perform() {
  await client.sessions.create("checkout-fix", {
    agent: "scripted",
    title: "Fix the failing checkout test",
    autoCheckpoint: true,
  });
  await run("checkout-fix", [
    {
      plan: [
        { content: "Find the failing test", status: "completed", priority: "high" },
        { content: "Fix the total", status: "in_progress", priority: "high" },
        { content: "Run the tests again", status: "pending", priority: "medium" },
      ],
    },
    { think: "The total ignores the quantity of an item." },
    {
      write: {
        path: "src/cart.ts",
        content: "export function total(item: Item) {\n  return item.price;\n}\n",
      },
    },
    {
      shell:
        "sleep 0.3; printf '\\033[32m✓\\033[0m cart adds items\\n\\033[31m✗ cart sums the quantity\\033[0m\\n'; exit 1",
    },
    { edit: { path: "src/cart.ts", old: "item.price", new: "item.price * item.quantity" } },
    {
      subagent: {
        name: "explore",
        steps: [{ shell: "sleep 0.2; ls src" }, { say: "Only the cart uses the total." }],
      },
    },
    {
      shell:
        "sleep 0.4; printf '\\033[32m✓\\033[0m cart adds items\\n\\033[32m✓\\033[0m cart sums the quantity\\n'",
    },
    { usage: { input_tokens: 8200, output_tokens: 640, cache_read_tokens: 5100, cost_usd: 0.042 } },
    {
      say: "The total ignored the **quantity**. `src/cart.ts` multiplies now, and both tests pass.\n\n| test | before | now |\n|---|---|---|\n| adds items | ok | ok |\n| sums the quantity | failed | ok |",
    },
  ]);
  await client.sessions.create("docs", { agent: "scripted", title: "Describe the API" });
  await run("docs", [{ say: "I have read the routes and wrote a page for each." }]);
  await client.sessions.create("nightly", { agent: "scripted", title: "Nightly upgrade of packages" });
  await run("nightly", [{ shell: "echo checking" }, { fail: { kind: "terminal", times: 1 } }]);
  await client.sendMessage(
    "checkout-fix",
    `#script ${JSON.stringify([{ say: "The fix is ready to go out." }, { ask: { shell: "make deploy" } }])}`,
  );
  for await (const event of client.subscribe("checkout-fix"))
    if (event.type === "permission.requested") return;
}

async function run(session, steps) {
  for await (const event of client.messageStream(session, `#script ${JSON.stringify(steps)}`))
    if (event.type === "turn.ended") return;
}
