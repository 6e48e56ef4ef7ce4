import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SluiceEvent } from "../../src/contract/index.ts";
import { ended, lines, printed, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
let bench: Workbench;

beforeEach(() => {
  bench = new Workbench();
});

afterEach(() => bench.close());

/** A zombie counts as ended. */
function isAlive(pid: number): boolean {
  const stat = `/proc/${pid}/stat`;
  return existsSync(stat) && !/\) Z /.test(readFileSync(stat, "utf8"));
}

describe("sluice run", () => {
  it("runs one turn, prints it live and exits with 0", async () => {
    const { code, out, err } = await bench.run([
      "run",
      script({ shell: "echo hi" }, { say: "All done here" }),
    ]);
    expect(err).toBe("");
    expect(code).toBe(0);
    expect(out).toContain("● shell  echo hi\n  hi\n");
    expect(out).toContain("\nAll done here\n");
    expect(out).toMatch(/✓ done in .*\n {2}session (ses_\w+) · replay it: \S*\/bin\/sluice tail \1\n$/);
    expect(out).not.toContain("\u001B");
  });

  it("works in the current folder, or in --cwd", async () => {
    await bench.run(["run", script({ write: { path: "here.txt", content: "x" } })]);
    expect(readFileSync(join(bench.work, "here.txt"), "utf8")).toBe("x");
    await bench.run(["run", "--cwd", bench.folder, script({ write: { path: "there.txt", content: "y" } })]);
    expect(readFileSync(join(bench.folder, "there.txt"), "utf8")).toBe("y");
  });

  it.each([
    ["anthropic", "agent.message"],
    ["ag-ui", "TEXT_MESSAGE_CONTENT"],
    ["ndjson", "result"],
    ["content", "agent_message_chunk"],
  ])("prints the frames of %s with --as, one JSON per line", async (format, told) => {
    const { code, out } = await bench.run(["run", "--as", format, '#script [{"say":"hello"}]']);
    expect(code).toBe(0);
    const frames = out.trim().split("\n");
    for (const frame of frames) expect(() => JSON.parse(frame) as unknown, frame).not.toThrow();
    expect(frames.some((frame) => frame.includes(`"${told}"`) && frame.includes("hello"))).toBe(true);
  });

  it("prints the universal events with --as universal, gapless and valid", async () => {
    const { code, out } = await bench.run(["run", "--as", "universal", script({ say: "hi" })]);
    expect(code).toBe(0);
    const events = lines(out);
    expect(events.map((event) => event["sequence"])).toEqual(events.map((_, n) => n + 1));
    for (const event of events) expect(SluiceEvent.safeParse(event).error).toBeUndefined();
    expect(events.map((event) => event["type"])).toContain("turn.started");
    expect(events.at(-1)?.["type"]).toBe("turn.ended");
  });

  it("creates its data folder with parents, private to the user", async () => {
    const data = join(bench.folder, "a", "b", "c");
    expect((await bench.run(["run", "--data", data, script({ say: "hi" })])).code).toBe(0);
    expect(statSync(data).mode & 0o777).toBe(0o700);
    expect(existsSync(bench.data)).toBe(false);
  });

  it("prints the command that replays the session, also with another data folder", async () => {
    const data = join(bench.folder, "my data");
    const { out } = await bench.run(["run", "--session", "s", "--data", data, script({ say: "hi" })]);
    const [, words = ""] = /replay it: (.*)\n/.exec(out) ?? [];
    expect(words).toBe(`${BIN} tail s --data '${data}'`);
    // A clone is not on PATH, so the hint has the path of the command.
    const again = await bench.run([], { argv: ["/bin/sh", "-c", words] });
    expect(again.out).toContain("\nhi\n");
    expect(again.out).toContain(`${words}\n`);
  });

  it("reads the prompt from standard input", async () => {
    const prompt = script({ say: "from the pipe" });
    for (const args of [["run"], ["run", "-"]]) {
      expect((await bench.run(args, { input: prompt })).out).toContain("from the pipe");
    }
  });

  it("continues a session with --session, or creates it", async () => {
    expect((await bench.run(["run", "--session", "notes", "remember the milk"])).code).toBe(0);
    const again = await bench.run(["run", "--session", "notes", script({ say: "$history" })]);
    expect(again.out).toContain("remember the milk");
    expect(
      lines((await bench.run(["sessions", "--json"])).out).map((session) => session["sessionId"]),
    ).toEqual(["notes"]);
  });

  it("leaves no process behind", async () => {
    // Without isolation a pid is the same inside and outside.
    await bench.run([
      "run",
      "--sandbox",
      "local",
      script({ shell: "sleep 300 > /dev/null & echo $! > pid" }),
    ]);
    const pid = Number(readFileSync(join(bench.work, "pid"), "utf8"));
    expect(pid).toBeGreaterThan(1);
    expect(isAlive(pid)).toBe(false);
  });

  it.each([
    ["a script that fails", script({ fail: { kind: "terminal", times: 1 } })],
    ["an agent that dies", script({ stderr: "boom" }, { exit: 3 })],
  ])("ends with 1 after %s", async (_name, prompt) => {
    const { code, out } = await bench.run(["run", prompt]);
    expect(code).toBe(1);
    expect(out).toContain("✗ failed: ");
  });

  it("shows the exit code and the last output of a dead agent", async () => {
    const { out } = await bench.run(["run", script({ stderr: "boom" }, { exit: 3 })]);
    expect(out).toMatch(/✗ session ended: .*\(exit code 3\)\n {2}boom\n/);
  });

  it("prints all events of a session that ends with its turn", async () => {
    const { code, out } = await bench.run(["run", "--session", "s", script({ fail: { kind: "terminal" } })]);
    expect(code).toBe(1);
    expect(out).toContain("✗ session ended: The model cannot go on.");
    const again = script({ fail: { kind: "terminal" } });
    const told = await bench.run(["run", "--session", "t", "--json", again]);
    expect(told.out).toBe((await bench.run(["export", "t"])).out);
  });

  it("denies permission requests without a terminal, with a notice", async () => {
    const { code, out, err } = await bench.run(["run", script({ ask: { shell: "touch forbidden" } })]);
    expect(code).toBe(0);
    expect(out).toContain("? permission  shell  touch forbidden\n  ✗ denied\n");
    expect(err).toMatch(
      /permission for "shell" was denied, because standard input is not a terminal.*sluice serve/,
    );
    expect(existsSync(join(bench.work, "forbidden"))).toBe(false);
  });

  it("leaves permissions to the chosen policy", async () => {
    const prompt = script({ ask: { shell: "touch allowed" } });
    const { out, err } = await bench.run(["run", "--permission-mode", "bypass", prompt]);
    expect(out).toContain("  ✓ approved\n");
    expect(err).toBe("");
    expect(existsSync(join(bench.work, "allowed"))).toBe(true);
  });

  it("is interrupted by Ctrl-C with exit code 130, and the session stays usable", async () => {
    const child = bench.start([
      "run",
      "--session",
      "s",
      script({ say: "started" }, { sleep: 60_000 }, { say: "never" }),
    ]);
    const end = ended(child);
    await printed(child, /\nstarted\n/);
    child.kill("SIGINT");
    const { code, out, err } = await end;
    expect(code).toBe(130);
    expect(err).toContain("Interrupting the turn.");
    expect(out).toContain("■ interrupted");
    expect(out).not.toContain("\nnever\n");
    expect((await bench.run(["run", "--session", "s", script({ say: "again" })])).code).toBe(0);
  });

  it("kills the session at the second Ctrl-C", async () => {
    // The agent's shell ignores the interrupt for longer than the test waits.
    const stubborn = script({ say: "started" }, { shell: "trap '' INT TERM; sleep 60" });
    const child = bench.start(["run", "--session", "s", stubborn]);
    const end = ended(child);
    await printed(child, /● shell/);
    child.kill("SIGINT");
    await printed(child, /Interrupting/, "stderr");
    child.kill("SIGINT");
    const { code, out, err } = await end;
    expect(code).toBe(130);
    // The turn may end before the second interrupt.
    if (err.includes("Killing the session.")) expect(out).toContain("■ session terminated");
    const types = lines((await bench.run(["export", "s"])).out).map((event) => event["type"]);
    expect(types.filter((type) => type === "turn.ended")).toHaveLength(1);
  });

  it("finishes the turn after the reader of its output has gone", async () => {
    const argv = [
      "sh",
      "-c",
      `"$0" run --session s '${script({ say: "one" }, { write: { path: "late.txt", content: "x" } })}' | head -1`,
    ];
    const { err } = await bench.run([], { argv: [...argv, BIN] });
    expect(err).toBe("");
    expect(existsSync(join(bench.work, "late.txt"))).toBe(true);
  });

  it.each(["local", "bwrap"])("passes none of its environment to the agent (%s)", async (sandbox) => {
    const file = join(bench.work, "open-file");
    writeFileSync(file, "");
    const shell = "ls -l /proc/self/fd";
    const command = `exec 40< '${file}'; exec "$0" run --as universal --sandbox ${sandbox} '${script({ shell })}'`;
    const { out, code } = await bench.run([], { argv: ["bash", "-c", command, BIN] });
    expect(code).toBe(0);
    expect(out).toContain("/proc/");
    expect(out).not.toContain("open-file");
  });

  it.skipIf(!existsSync("/dev/full"))("reports unwritable output after the turn", async () => {
    const steps = script({ say: "one" }, { write: { path: "late.txt", content: "x" } });
    const argv = ["sh", "-c", `"$0" run '${steps}' > /dev/full`, BIN];
    const { code, err } = await bench.run([], { argv });
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^sluice: The output could not be written: ENOSPC.*\n$/),
    ]);
    expect(existsSync(join(bench.work, "late.txt"))).toBe(true);
  });

  it.each([
    ["no prompt", ["run"], 2, /There is no prompt/],
    [
      "a folder that is not there",
      ["run", "--cwd", "/sluice/none", "hi"],
      1,
      /no directory \/sluice\/none\. Make it, or name another one with --cwd/,
    ],
    [
      "an ACP agent without its command",
      ["run", "--agent", "acp", "hi"],
      1,
      /needs the command that starts it.*-- my-agent --acp/,
    ],
    ["an unknown format", ["run", "--as", "klingon", "hi"], 2, /no format "klingon"\. Formats: universal/],
    ["an unknown agent", ["run", "--agent", "scriptde", "hi"], 1, /Did you mean "scripted"\?/],
    ["an unknown sandbox", ["run", "--sandbox", "moon", "hi"], 1, /no sandbox provider "moon"/],
    ["a bad session id", ["run", "--session", "a/b", "hi"], 1, /session id/],
    [
      "an unknown option",
      ["run", "--sesion", "x", "hi"],
      2,
      /unknown option '--sesion'[^]*Did you mean --session\?/,
    ],
    ["an unknown command", ["rnu", "hi"], 2, /unknown command 'rnu'[^]*Did you mean run\?/],
  ])("explains %s", async (_name, args, code, message) => {
    const ended = await bench.run(args);
    expect(ended.err).toMatch(message);
    expect(ended.code).toBe(code);
    expect(ended.out).toBe("");
  });

  it("refuses another agent for a session", async () => {
    await bench.run(["run", "--session", "s", script({ say: "hi" })]);
    const { code, err } = await bench.run(["run", "--session", "s", "--agent", "other", "hi"]);
    expect(code).toBe(2);
    expect(err).toMatch(/belongs to the agent "scripted"/);
  });
});
