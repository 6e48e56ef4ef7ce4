import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { missingTmux, Tmux } from "./tmux.ts";
import { ended, printed, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
/** Sets the title, clears the screen, colours, one-byte CSI, a bell, a reversal of the reading direction. */
const EVIL =
  "\u001B]0;PWNED\u0007\u001B[2J\u001B[31mred\u009B2J\u0007\u202Ereversed\rback\b\u001BP1$rX\u001B\\";
// oxlint-disable-next-line no-control-regex
const RAW = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E]/;

let bench: Workbench;
let server: TestServer;
let terminal: Tmux | undefined;

beforeAll(async () => {
  bench = new Workbench();
  server = await startServer({ data: bench.data });
});
afterEach(() => {
  terminal?.close();
  terminal = undefined;
});
afterAll(async () => {
  await server.close();
  await bench.close();
});

/** Waits until a request of this kind is open. */
async function untilOpen(kind: string): Promise<void> {
  for (;;) {
    const [action] = (await server.client.sessions.get("evil")).pendingActions;
    if (action?.id.startsWith(kind)) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const steps = [
  { say: `hello ${EVIL} there` },
  { think: EVIL },
  { shell: `printf '%s' '${EVIL}'` },
  { plan: [{ content: EVIL, status: "pending", priority: "medium" }] },
  { write: { path: `a${EVIL.replaceAll(/[\\/\r]/g, "")}.txt`, content: EVIL } },
  { custom: { name: `tool${EVIL}`, input: { [EVIL]: EVIL } } },
  { ask: { shell: `echo '${EVIL}'` } },
  { question: { prompt: `Which ${EVIL}?`, options: [`one ${EVIL}`, "two"] } },
  { say: "the end" },
];

describe("hostile text of an agent", () => {
  it("reaches no terminal raw through send, attach, answer and sessions", async () => {
    await server.client.sessions.create("evil", { agent: "scripted", title: `title ${EVIL}` });
    const watcher = bench.start(["attach", "evil"]);
    watcher.stdin?.end();
    const watched = ended(watcher);
    const sender = bench.start(["send", "evil", script(...steps)]);
    sender.stdin?.end();
    const sent = ended(sender);
    for (const kind of ["treq", "perm", "ques"]) {
      await untilOpen(kind);
      const listed = await bench.run(["answer", "evil"]);
      expect(listed.out).not.toMatch(RAW);
      const id = listed.out.split(" ")[0] ?? "";
      const wrong = await bench.run(["answer", "evil", `perm_${EVIL}`, "once"]);
      expect(wrong.err).not.toMatch(RAW);
      await bench.run(["answer", "evil", id, kind === "perm" ? "once" : "fine"]);
    }
    const { out, err, code } = await sent;
    expect(code).toBe(0);
    expect(out).toContain("the end");
    expect(out).not.toMatch(RAW);
    expect(err).not.toMatch(RAW);
    watcher.kill("SIGINT");
    const seen = await watched;
    expect(seen.out).toContain("the end");
    expect(seen.out + seen.err).not.toMatch(RAW);
    const { out: listed } = await bench.run(["sessions"]);
    expect(listed).toContain("title");
    expect(listed).not.toMatch(RAW);
    expect((await bench.run(["usage"])).out).not.toMatch(RAW);
  });

  it("changes nothing of the terminal in a chat", async ({ skip }) => {
    const reason = missingTmux();
    if (reason !== undefined) return skip(reason);
    await server.client.sessions.create("evil-chat", { agent: "scripted", title: EVIL });
    terminal = new Tmux([BIN, "chat", "evil-chat"], { env: bench.env(), cwd: bench.work });
    await terminal.until(/^›/m);
    await terminal.type(script(...steps.filter((step) => !("custom" in step))));
    await terminal.keys("Enter");
    await terminal.until(/allow\?/);
    await terminal.keys("y", "Enter");
    await terminal.until(/a number from 1 to 2/);
    await terminal.keys("2", "Enter");
    const text = await terminal.until(/the end[\s\S]*✓ done/);
    expect(text).toContain("hello");
    expect(await terminal.title()).not.toContain("PWNED");
    await terminal.type("/sessions");
    await terminal.keys("Enter");
    await terminal.until(/evil-chat +scripted/);
    expect(await terminal.title()).not.toContain("PWNED");
    await terminal.keys("C-d");
    expect(await terminal.exitCode()).toBe(0);
  });
});

describe("a token in SLUICE_TOKEN", () => {
  const TOKEN = "tok-in-the-environment-0123456789";

  it("is the server's own, and in no process list", async () => {
    const own = new Workbench();
    const env = { SLUICE_TOKEN: TOKEN };
    const serving = own.start(["serve", "--port", "0"], { env });
    const served = ended(serving);
    const listening = await printed(serving, /listening on \S+/);
    const url = /http:\S+/.exec(listening)?.[0] ?? "";
    const prompt = script({ say: "begun" }, { shell: "env" }, { sleep: 60_000 });
    const run = own.start(["run", "--server", url, "--session", "s", "--agent", "scripted", prompt], { env });
    run.stdin?.end();
    const ran = ended(run);
    await printed(run, /begun/);
    const watching = own.start(["attach", "s"], { env });
    const watched = ended(watching);
    await printed(watching, /begun/);
    expect(commandLines()).not.toContain(TOKEN);
    const stranger = await own.run(["interrupt", "s"]);
    expect(stranger).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringMatching(/refuses the token.*SLUICE_TOKEN/),
    });
    expect((await own.run(["interrupt", "s"], { env })).code).toBe(0);
    watching.kill("SIGINT");
    const outputs = [await ran, await watched];
    serving.kill("SIGTERM");
    const { err } = await served;
    expect(err).toContain("The token is the one in SLUICE_TOKEN.");
    for (const { out, err } of outputs) expect(out + err).not.toContain(TOKEN);
    await own.close();
  });
});

/** The command lines of all processes of this machine. */
function commandLines(): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .join("\n");
}
