import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { missingTmux, Tmux } from "./tmux.ts";
import { lines, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const reason = missingTmux();
let bench: Workbench;
let server: TestServer;
let terminal: Tmux;

function open(args: readonly string[], env: NodeJS.ProcessEnv = {}): Tmux {
  terminal = new Tmux([BIN, ...args], { env: bench.env(env), cwd: bench.work });
  return terminal;
}

async function say(text: string): Promise<void> {
  await terminal.type(text);
  await terminal.keys("Enter");
}

/** The prompt, empty, in the last line. */
const READY = /^›\s*$/m;

describe.skipIf(reason !== undefined)(`a chat${reason === undefined ? "" : ` (${reason})`}`, () => {
  beforeAll(async () => {
    bench = new Workbench();
    server = await startServer({ data: bench.data });
  });
  afterEach(() => terminal.close());
  afterAll(async () => {
    await server.close();
    await bench.close();
  });

  it("talks, asks in place, interrupts, and leaves at Ctrl-D", async () => {
    open(["chat", "--agent", "scripted"]);
    await terminal.until(READY);
    await say(script({ say: "hello from the agent" }));
    await terminal.until(/hello from the agent\s+✓ done.*\s+›/);
    await say(
      script(
        { ask: { shell: "touch allowed" } },
        { question: { prompt: "Which?", options: ["red", "blue"] } },
      ),
    );
    await terminal.until(/allow\? \[y\]es/);
    await say("y");
    await terminal.until(/a number from 1 to 2/);
    await say("2");
    await terminal.until(/✓ blue[\s\S]*✓ done.*\s+›/);
    expect(existsSync(join(bench.work, "allowed"))).toBe(true);
    await say(script({ say: "long work" }, { sleep: 60_000 }));
    await terminal.until(/long work/);
    await terminal.until(/· working, \d+ s · Ctrl-C interrupts/);
    await terminal.keys("C-c");
    const text = await terminal.until(/■ interrupted.*\s+›/);
    expect(text).not.toContain("· working");
    await terminal.keys("C-d");
    expect(await terminal.exitCode()).toBe(0);
    expect(await terminal.screen()).toMatch(/sluice chat ses_\w+` continues this session/);
  });

  it("sends several lines after Alt-Enter, a backslash, or from a paste", async () => {
    await server.client.sessions.create("lines", { agent: "scripted" });
    open(["chat", "lines"]);
    await terminal.until(READY);
    await terminal.type("one");
    await terminal.keys("M-Enter");
    await say("two \\");
    await say("three");
    await terminal.until(/✓ done.*\s+›/);
    await terminal.paste("four\nfive\n");
    await terminal.until(/five/);
    await terminal.keys("Enter");
    await terminal.until(/✓ done[\s\S]*✓ done.*\s+›/);
    const events = await server.client.getEvents("lines", { extensions: true, types: ["input.accepted"] });
    expect(events.map(({ data }) => (data as { content: { text: string }[] }).content[0]?.text)).toEqual([
      "one\ntwo \nthree",
      "four\nfive\n",
    ]);
  });

  it("has a history, keeps what is typed ahead, and discards a line at Ctrl-C", async () => {
    open(["chat", "--agent", "scripted"]);
    await terminal.until(READY);
    await say(script({ sleep: 700 }, { say: "first" }));
    await say(script({ say: "typed ahead" }));
    await terminal.until(/first[\s\S]*› #script \[\{"say":"typed ahead"\}\][\s\S]*✓ done.*\s+›/);
    await terminal.type("never sent");
    await terminal.keys("C-c");
    await terminal.until(/never sent\n›/);
    await terminal.keys("Up", "Enter");
    await terminal.until(/(typed ahead[\s\S]*){4}✓ done.*\s+›/);
    await terminal.keys("C-d");
    await terminal.exitCode();
    expect(readFileSync(join(bench.folder, ".local/state/sluice/chat-history"), "utf8")).toContain(
      "typed ahead",
    );
  });

  it("has slash commands", async () => {
    await server.client.sessions.create("target", { agent: "scripted" });
    open(["chat"]);
    await terminal.until(READY);
    await say("/help");
    await terminal.until(/\/quit +leave/);
    await say("/nothing");
    await terminal.until(/There is no command \/nothing/);
    await say("/switch nobody");
    await terminal.until(/There is no such session/);
    await say("/switch target");
    await say("/status");
    await terminal.until(/session +target[\s\S]*agent +scripted/);
    await say("/new");
    await terminal.until(/next message begins a new session/);
    await say("/quit");
    expect(await terminal.exitCode()).toBe(0);
  });

  it("continues the last session with -c, shows its last turn, and turns of other clients", async () => {
    await server.client.sessions.create("last", { agent: "scripted" });
    await bench.run(["send", "last", script({ say: "what was said" })]);
    open(["chat", "-c"]);
    await terminal.until(/session last[\s\S]*what was said[\s\S]*✓ done.*\s+›/);
    await terminal.type("half a li");
    await terminal.until(/half a li/);
    await bench.run(["send", "last", script({ say: "from elsewhere" })]);
    await terminal.until(/from elsewhere[\s\S]*✓ done.*\s+› half a li/);
    await terminal.keys("n", "e", "Enter");
    await terminal.until(/"half a line"|half a line[\s\S]*✓ done.*\s+›/);
    await bench.run(["rm", "last", "--yes"]);
    await terminal.until(/The session is over/);
    await terminal.keys("C-d");
    expect(await terminal.exitCode()).toBe(0);
  });

  it("needs a terminal and a known, living session", async () => {
    open(["sessions"]);
    const piped = await bench.run(["chat"]);
    expect(piped).toMatchObject({ code: 2, out: "" });
    expect(piped.err).toMatch(/needs a terminal.*sluice send/);
    await server.client.sessions.create("over", { agent: "scripted" });
    await server.client.terminate("over");
    for (const [id, words] of [
      ["nobody", /There is no such session/],
      ["over", /has ended/],
    ] as const) {
      terminal.close();
      open(["chat", id]);
      expect(await terminal.exitCode()).toBe(1);
      expect(await terminal.screen()).toMatch(words);
    }
  });

  it("works without a server", async () => {
    const data = join(bench.folder, "own-data");
    open(["chat", "--agent", "scripted", "--sandbox", "local", "--data", data]);
    await terminal.until(READY);
    await say(script({ say: "without a server" }));
    await terminal.until(/without a server[\s\S]*✓ done.*\s+›/);
    await say(script({ say: "second" }, { sleep: 60_000 }));
    await terminal.until(/second/);
    await terminal.keys("C-d");
    expect(await terminal.exitCode()).toBe(0);
    const [session] = lines((await bench.run(["sessions", "--json", "--data", data])).out);
    expect(session).toMatchObject({ status: "idle" });
  });
});

describe.skipIf(reason !== undefined)("at a terminal", () => {
  beforeAll(async () => {
    bench = new Workbench();
    server = await startServer({ data: bench.data });
  });
  afterEach(() => terminal.close());
  afterAll(async () => {
    await server.close();
    await bench.close();
  });

  it("attach shows the running turn, asks, and leaves at Ctrl-C", async () => {
    await server.client.sessions.create("live", { agent: "scripted" });
    await bench.run(["send", "live", script({ say: "an old turn" })]);
    const steps = [{ say: "the running turn" }, { ask: { shell: "echo hi" } }, { sleep: 60_000 }];
    await server.client.sendMessage("live", script(...steps));
    open(["attach", "live"]);
    const text = await terminal.until(/the running turn[\s\S]*allow\? \[y\]es/);
    expect(text).not.toContain("an old turn");
    await say("y");
    await terminal.until(/✓ approved/);
    await terminal.until(/· working, \d+ s · Ctrl-C leaves it/);
    await terminal.keys("C-c");
    expect(await terminal.exitCode()).toBe(0);
    expect(await terminal.screen()).toContain("Left live, which goes on.");
    expect((await server.client.sessions.get("live")).status).toBe("running");
    await server.client.interrupt("live");
  });

  it("attach hides a question that another client has answered", async () => {
    await server.client.sessions.create("both", { agent: "scripted" });
    await server.client.sendMessage("both", script({ ask: { shell: "echo hi" } }, { say: "over" }));
    open(["attach", "both"]);
    await terminal.until(/allow\?/);
    const [action] = (await server.client.sessions.get("both")).pendingActions;
    await bench.run(["answer", "both", action?.id ?? "", "once"]);
    await terminal.until(/✓ approved[\s\S]*over[\s\S]*✓ done/);
    await terminal.keys("C-c");
    expect(await terminal.exitCode()).toBe(0);
  });

  it("rm asks first", async () => {
    await server.client.sessions.create("doomed", { agent: "scripted", title: "a title" });
    open(["rm", "doomed"]);
    await terminal.until(/Remove doomed \(a title\), idle.*\[y\/N\]/);
    await terminal.keys("Enter");
    expect(await terminal.exitCode()).toBe(1);
    terminal.close();
    open(["rm", "doomed"]);
    await terminal.until(/\[y\/N\]/);
    await say("y");
    expect(await terminal.exitCode()).toBe(0);
    await expect(server.client.sessions.get("doomed")).rejects.toMatchObject({ code: "session_not_found" });
  });

  it("run tells the agent that it has chosen", async () => {
    open(["run", script({ say: "hi" })]);
    expect(await terminal.exitCode()).toBe(0);
    expect(await terminal.screen()).toMatch(/The agent is scripted/);
  });
});
