import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { ended, lines, printed, script, Workbench } from "./workbench.ts";

let bench: Workbench;
let server: TestServer;
let made = 0;

beforeAll(async () => {
  bench = new Workbench();
  server = await startServer({ data: bench.data });
});

afterAll(async () => {
  await server.close();
  await bench.close();
});

async function newSession(spec: object = {}): Promise<string> {
  const id = `s${++made}`;
  await server.client.sessions.create(id, { agent: "scripted", ...spec });
  return id;
}

/** Waits until the session has an open request, and returns its id. */
async function openRequest(session: string): Promise<string> {
  for (;;) {
    const [action] = (await server.client.sessions.get(session)).pendingActions;
    if (action) return action.id;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe("the server of the data folder", () => {
  it("is found on any port, and its note goes with it", async () => {
    const other = new Workbench();
    const second = await startServer({ data: other.data });
    const note = join(other.data, "server.json");
    expect(JSON.parse(readFileSync(note, "utf8"))).toMatchObject({ url: second.url, pid: second.pid });
    await second.client.sessions.create("here", { agent: "scripted" });
    expect((await other.run(["sessions"])).out).toContain("here");
    await second.kill();
    const { code, err, out } = await other.run(["interrupt", "here"]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/No server is running for .*serve`.*--server URL/);
    await second.close();
    expect((await other.run(["interrupt", "here"])).code).toBe(1);
    await other.close();
  });
});

describe("sluice send", () => {
  it("prints the transcript of its turn, and exits as run does", async () => {
    const id = await newSession();
    const done = await bench.run(["send", id, script({ say: "hello there" })]);
    expect(done).toMatchObject({ code: 0, err: "" });
    expect(done.out).toContain("hello there");
    expect(done.out).toContain("✓ done");
    const failed = await bench.run(["send", id, script({ fail: { kind: "terminal", times: 9 } })]);
    expect(failed.code).toBe(1);
    expect(failed.out).toContain("✗ failed");
  });

  it("takes the message from standard input, and prints frames with --as", async () => {
    const id = await newSession();
    const { code, out } = await bench.run(["send", id, "-", "--as", "ndjson"], {
      input: script({ say: "from a pipe" }),
    });
    expect(code).toBe(0);
    expect(lines(out).at(-1)).toMatchObject({ type: "result", message: "from a pipe" });
  });

  it("prints only the turn's id with --detach", async () => {
    const id = await newSession();
    const { code, out } = await bench.run(["send", id, "--detach", script({ sleep: 300 }, { say: "later" })]);
    expect(code).toBe(0);
    expect(out).toMatch(/^turn_\w+\n$/);
    expect((await bench.run(["tail", id])).out).toContain("later");
  });

  it("prints only its own turn while another client's turn runs first", async () => {
    const id = await newSession();
    await server.client.sendMessage(id, script({ sleep: 500 }, { say: "the other one" }));
    const { out, code } = await bench.run(["send", id, script({ say: "mine" })]);
    expect(code).toBe(0);
    expect(out).toContain("mine");
    expect(out).not.toContain("the other one");
  });

  it("leaves requests to other clients without a terminal, and says how to answer", async () => {
    const id = await newSession();
    const child = bench.start(["send", id, script({ ask: { shell: "echo allowed" } })]);
    child.stdin?.end();
    const end = ended(child);
    await printed(
      child,
      /waits for an answer: `\S*sluice answer s\d+ perm_\w+ once\|always\|reject`/,
      "stderr",
    );
    await bench.run(["answer", id, await openRequest(id), "once"]);
    const { code, out } = await end;
    expect(code).toBe(0);
    expect(out).toContain("✓ approved");
  });

  it("interrupts the turn at Ctrl-C and keeps the session", async () => {
    const id = await newSession();
    const child = bench.start(["send", id, script({ say: "begun" }, { sleep: 60_000 })]);
    child.stdin?.end();
    const end = ended(child);
    await printed(child, /begun/);
    child.kill("SIGINT");
    expect(await end).toMatchObject({ code: 130, out: expect.stringContaining("■ interrupted") });
    expect((await server.client.sessions.get(id)).status).toBe("idle");
  });
});

describe("sluice answer", () => {
  it.each([
    { words: ["once"], shown: "✓ approved" },
    { words: ["always"], shown: "✓ approved" },
    { words: ["reject", "not", "today"], shown: "✗ denied" },
  ])("answers a permission with $words", async ({ words, shown }) => {
    const id = await newSession();
    await server.client.sendMessage(id, script({ ask: { shell: "echo x" } }));
    const action = await openRequest(id);
    expect(await bench.run(["answer", id, action, ...words])).toMatchObject({ code: 0, err: "" });
    expect((await bench.run(["tail", id])).out).toContain(shown);
  });

  it("answers a question with a text, a number or reject", async () => {
    const id = await newSession();
    const question = { question: { prompt: "Which?", options: ["red", "blue"] } };
    await server.client.sendMessage(id, script(question, question, question));
    for (const words of [["the", "green", "one"], ["2"], ["reject"]]) {
      const answered = await bench.run(["answer", id, await openRequest(id), ...words]);
      expect(answered).toMatchObject({ code: 0, err: "" });
    }
    const { out } = await bench.run(["tail", id]);
    expect(out).toContain("✓ the green one");
    expect(out).toContain("✓ blue");
    expect(out).toContain("✗ not answered");
  });

  it("answers a tool call with its output", async () => {
    const id = await newSession();
    await server.client.sendMessage(id, script({ custom: { name: "weather", input: {} } }));
    expect((await bench.run(["answer", id, await openRequest(id), "7", "degrees"])).code).toBe(0);
    expect((await bench.run(["tail", id])).out).toContain("7 degrees");
  });

  it("lists the open requests, and names them for a wrong id", async () => {
    const id = await newSession();
    await server.client.sendMessage(id, script({ ask: { shell: "echo x" } }));
    const action = await openRequest(id);
    expect((await bench.run(["answer", id])).out).toBe(`${action}  permission  shell  echo x\n`);
    const wrong = await bench.run(["answer", id, "perm_nobody", "once"]);
    expect(wrong).toMatchObject({ code: 1, out: "" });
    expect(wrong.err).toMatch(
      new RegExp(`No open request of ${id} has the id "perm_nobody".*${action}`, "s"),
    );
    expect((await bench.run(["answer", id, action, "perhaps"])).code).toBe(2);
    expect((await bench.run(["answer", id, action])).code).toBe(2);
    await bench.run(["answer", id, action, "once"]);
    expect((await bench.run(["answer", id, action, "reject"])).code).toBe(1);
  });
});

describe("sluice interrupt, pause, resume", () => {
  it("ends the running turn", async () => {
    const id = await newSession();
    const { turnId } = await server.client.sendMessage(id, script({ sleep: 60_000 }));
    while ((await server.client.sessions.get(id)).status !== "running")
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(await bench.run(["interrupt", id])).toMatchObject({ code: 0, out: `Interrupted ${turnId}\n` });
    expect(await bench.run(["interrupt", id])).toMatchObject({ code: 0, out: "" });
  });

  it("suspends a session and lets it continue", async () => {
    const id = await newSession();
    await bench.run(["send", id, script({ say: "hi" })]);
    expect(await bench.run(["pause", id])).toMatchObject({ code: 0, out: `Paused ${id}\n` });
    const { out } = await bench.run(["sessions", "--status", "paused"]);
    expect(out).toMatch(new RegExp(`${id} +scripted +paused `));
    expect(await bench.run(["resume", id])).toMatchObject({ code: 0, out: `Resumed ${id}\n` });
    expect((await server.client.sessions.get(id)).paused).toBe(false);
  });
});

describe("sluice exec", () => {
  it("passes standard input on with -i, bytes as they are", async () => {
    const id = await newSession();
    const input = "line\nno newline";
    expect(await bench.run(["exec", id, "-i", "--", "cat"], { input })).toMatchObject({
      code: 0,
      out: input,
    });
    expect(await bench.run(["exec", id, "--", "cat"], { input })).toMatchObject({ code: 0, out: "" });
  });

  it("has the program's output, standard error and exit code", async () => {
    const id = await newSession();
    const command = "echo out; echo err >&2; exit 7";
    expect(await bench.run(["exec", id, "--", "sh", "-c", command])).toMatchObject({
      code: 7,
      out: "out\n",
      err: "err\n",
    });
    const words = ["a b", "$HOME", "it's", "*", ""];
    const { out } = await bench.run(["exec", id, "--", "printf", "<%s>", ...words]);
    expect(out).toBe(words.map((word) => `<${word}>`).join(""));
  });

  it("ends the program at Ctrl-C, and after --timeout", async () => {
    const id = await newSession();
    const child = bench.start(["exec", id, "--", "sh", "-c", "echo begun; sleep 60"]);
    const end = ended(child);
    await printed(child, /begun/);
    child.kill("SIGINT");
    expect((await end).code).toBe(130);
    const late = await bench.run(["exec", id, "--timeout", "1s", "--", "sleep", "60"]);
    expect(late).toMatchObject({ code: 124, err: expect.stringContaining("--timeout") });
  });

  it("says that a turn is running", async () => {
    const id = await newSession();
    await server.client.sendMessage(id, script({ sleep: 60_000 }));
    const { code, out, err } = await bench.run(["exec", id, "--", "ls"]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/busy.*interrupt/s);
    await bench.run(["interrupt", id]);
  });
});

describe("sluice port and open", () => {
  it("prints the address of a port", async () => {
    const id = await newSession();
    const { code, out } = await bench.run(["port", id, "3000"]);
    expect(code).toBe(0);
    expect(out).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n$/);
  });

  it.each(["0", "65536", "x", "-1"])("refuses the port %s", async (port) => {
    const { code, out, err } = await bench.run(["port", "any", "--", port]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toMatch(/A port is a number/);
  });

  it("prints the address of the page", async () => {
    const id = await newSession();
    const [code, page] = [/#k=[\w-]{32}/.source, `${server.url}/ui/`];
    expect((await bench.run(["open", id, "--print"])).out).toMatch(
      new RegExp(`^${page}${code}&to=/s/${id}\n$`),
    );
    expect((await bench.run(["open"])).out).toMatch(new RegExp(`^${page}${code}\n$`));
    expect((await bench.run(["open", "nobody", "--scope", "read"])).code).toBe(1);
  });
});

describe("sluice rm", () => {
  it("refuses without a terminal and without --yes", async () => {
    const id = await newSession();
    const { code, out, err } = await bench.run(["rm", id]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toContain("--yes");
    expect(await bench.run(["rm", id, "--yes"])).toMatchObject({ code: 0, out: `Removed ${id}\n` });
    expect((await bench.run(["rm", id, "--yes"])).code).toBe(1);
  });
});

describe("sluice sessions and usage", () => {
  it("filters by status and agent, and limits", async () => {
    const [first, second] = [await newSession(), await newSession()];
    await server.client.terminate(first);
    const ids = async (...args: string[]) =>
      lines((await bench.run(["sessions", "--json", ...args])).out).map((row) => row["sessionId"]);
    expect(await ids("--limit", "1")).toEqual([second]);
    const ended = await ids("--status", "ended");
    expect(ended).toContain(first);
    expect(ended).not.toContain(second);
    expect(await ids("--agent", "scripted", "--status", "idle", "--limit", "1")).toEqual([second]);
    expect(await bench.run(["sessions", "--agent", "claude"])).toMatchObject({ code: 0, out: "" });
    expect((await bench.run(["sessions", "--status", "happy"])).code).toBe(2);
    expect((await bench.run(["sessions", "--limit", "0"])).code).toBe(2);
  });

  it("sums up tokens", async () => {
    const id = await newSession();
    await bench.run(["send", id, script({ usage: { input_tokens: 1200, output_tokens: 34 } }, { say: "x" })]);
    const one = await bench.run(["usage", id, "--json"]);
    expect(lines(one.out)).toMatchObject([
      { sessionId: id, usage: { input_tokens: 1200, output_tokens: 34 } },
    ]);
    const all = await bench.run(["usage"]);
    expect(all.out).toMatch(new RegExp(`^${id} .*1,200 .* 34 `, "m"));
    expect(all.out).toMatch(/^all /m);
  });
});
