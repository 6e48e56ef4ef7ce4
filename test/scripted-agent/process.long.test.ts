import { appendFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ofType, openLab } from "./lab.ts";

const lab = openLab();

describe("a script that cannot be performed", () => {
  it.each([
    ["#script", "#script must be followed by a JSON array of steps (line 1, column 8)"],
    ["#script hello", "#script must be followed by a JSON array of steps (line 1, column 9)"],
    [
      '#script [{"say":"a"},',
      "#script is not valid JSON: expected a JSON value, the text ends (line 1, column 22)",
    ],
    [
      '#script\n[{"say":"a"}\n {"say":"b"}]',
      '#script is not valid JSON: expected "," or "]", found "{" (line 3, column 2)',
    ],
    [
      '#script [{"say":"a\nb"}]',
      '#script is not valid JSON: expected no raw control character, found "\\n" (line 1, column 19)',
    ],
    [
      '#script [{say:"a"}]',
      '#script is not valid JSON: expected a key in double quotes, found "s" (line 1, column 11)',
    ],
    ['#script [{"say":"a"}] and more', "#script has text behind its array (line 1, column 22)"],
    [
      '#script [{"say":"a"},{"sing":"b"}]',
      /^steps\[1\] is no known step: \{"sing":"b"\}\. Known steps: say, think, shell,/,
    ],
    ['#script [{"say":3}]', "steps[0].say must be a string, not 3"],
    ['#script [{"write":{"path":"a"}}]', "steps[0].write.content must be a string, not missing"],
    ['#script [{"parallel":[{"say":"a"}]}]', /^steps\[0\]\.parallel\[0\] must be a tool step/],
    ['#script [{"ask":{"sleep":1}}]', /^steps\[0\]\.ask must be a tool step/],
    [
      '#script [{"subagent":{"name":"x","steps":[{"nope":1}]}}]',
      /^steps\[0\]\.subagent\.steps\[0\] is no known step/,
    ],
    ['#script [{"rawBytes":"***"}]', 'steps[0].rawBytes must be base64, not "***"'],
    ['#script [{"say":"a","shell":"b"}]', "steps[0] is more than one step: say and shell"],
    ['#script [{"fail":{"kind":"x"}}]', /^steps\[0\]\.fail\.kind must be one of overloaded, rate_limited/],
    ['#script [{"signal":"SIGNOPE"}]', /^steps\[0\]\.signal must be the name of a signal/],
    ['#script ["say"]', 'steps[0] must be an object, not "say"'],
    [`#script ${"[".repeat(5000)}`, /at most 500 levels/],
  ])("%j: it says what is wrong and where, and the session goes on", async (text, message) => {
    const agent = await lab.start();
    const lines = await agent.turn(text);
    const [error] = ofType(lines, "error");
    expect(error).toMatchObject({ code: "bad_script" });
    if (typeof message === "string") expect(error?.message).toBe(message);
    else expect(error?.message).toMatch(message);
    expect((await agent.fact("turn.ended")).data).toMatchObject({
      status: "failed",
      error: { code: "bad_script", message: error?.message },
    });
    const next = await agent.turn([{ say: "on" }]);
    expect(ofType(next, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });

  it("takes lines behind the array as context, not as script", async () => {
    const agent = await lab.start();
    const lines = await agent.turn('#script [{"say":"a"}]\n\nA note from the system.');
    expect(ofType(lines, "text.ended").map((line) => line.text)).toEqual(["a"]);
  });
});

describe("the process", () => {
  it("takes prompts in order while a turn runs", async () => {
    const agent = await lab.start();
    for (const text of ["a", "b", "c"]) agent.script([{ shell: "true" }, { say: text }]);
    await agent.next("turn.ended", { where: (line) => line.turn === 3 });
    const order = agent.said.flatMap((line) =>
      line.type === "turn.started" || line.type === "turn.ended" ? [`${line.type} ${line.turn}`] : [],
    );
    expect(order).toEqual([1, 2, 3].flatMap((turn) => [`turn.started ${turn}`, `turn.ended ${turn}`]));
    expect(ofType(agent.said, "text.ended").map((line) => line.text)).toEqual(["a", "b", "c"]);
  });

  it("reports malformed, unknown and unasked lines on stderr, and ignores them", async () => {
    const agent = await lab.start();
    agent.write('garbage\n[]\nnull\n{"type":"dance"}\n{"type":"prompt"}\n{"type":"retry"}\n\n');
    agent.write('{"type":"permission","id":"x","reply":"once"}\n{"type":"answer","id":"x","answers":"a"}\n');
    await agent.turn([{ say: "a" }]);
    await agent.until(() => agent.stderr.split("\n").length === 9 || undefined, "eight complaints");
    expect(agent.stderr).toContain("(not JSON): garbage");
    expect(agent.stderr).toContain("(nobody waits for it)");
    expect(ofType(agent.said, "turn.ended")).toHaveLength(1);
  });

  it("takes a prompt that holds line separators and comes in small pieces", async () => {
    const agent = await lab.start();
    const line = `${JSON.stringify({ type: "prompt", id: "1", text: `#script [{"say":"a\u2028b — c"}]` })}\n`;
    const bytes = Buffer.from(line);
    for (let at = 0; at < bytes.length; at += 7) agent.writeBytes(bytes.subarray(at, at + 7));
    expect((await agent.next("text.ended")).text).toBe("a\u2028b — c");
  });

  it("takes a prompt of 20 MB", async () => {
    const agent = await lab.start();
    const text = "x".repeat(20_000_000);
    const lines = await agent.turn([{ say: text }]);
    expect(ofType(lines, "text.ended")[0]?.text.length).toBe(text.length);
  });

  it("mentions attachments, which do not hurt a script", async () => {
    const agent = await lab.start();
    agent.command({
      type: "prompt",
      inputId: "inp",
      content: [
        { type: "text", text: '#script [{"say":"a"}]' },
        { type: "file_ref", path: "notes.md", action: "read" },
        { type: "image", path: "cat.png" },
      ],
    });
    expect((await agent.next("text.ended")).text).toBe("a");
    await agent.next("turn.ended");
    const lines = await agent.turn([{ say: "$history" }]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe(
      '#script [{"say":"a"}]\n[file notes.md]\n[image cat.png]',
    );
  });

  it("ends when its input ends, after the turn that runs", async () => {
    const agent = await lab.start();
    agent.script([{ shell: "sleep 0.1" }, { say: "done" }]);
    agent.endInput();
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(agent.said.at(-1)).toMatchObject({ type: "turn.ended", stop_reason: "end_turn" });
  });

  it("interrupts a pending request when its input has ended", async () => {
    const agent = await lab.start();
    agent.script([{ question: { prompt: "?" } }]);
    await agent.next("question.asked");
    agent.endInput();
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(agent.said.at(-1)).toMatchObject({ type: "turn.ended", stop_reason: "interrupted" });
  });

  it("says nothing more of a turn that stands at a failure", async () => {
    const agent = await lab.start();
    agent.script([{ subagent: { name: "s", steps: [{ fail: { kind: "overloaded" } }] } }]);
    await agent.next("model.failed");
    agent.endInput();
    expect(await agent.exited).toEqual({ code: 0, signal: null });
    expect(agent.said.at(-1)?.type).toBe("model.failed");
  });

  it("ends on SIGTERM, with its command", async () => {
    const agent = await lab.start();
    agent.script([{ shell: "echo $$; exec sleep 1000" }]);
    const pid = Number((await agent.next("tool.output")).text);
    agent.signal("SIGTERM");
    expect(await agent.exited).toEqual({ code: 143, signal: null });
    await expect.poll(() => isAlive(pid)).toBe(false);
  });
});

describe("memory", () => {
  it("is resumed by the native session id, with ids that were never used before", async () => {
    const first = await lab.start();
    const { id } = await first.next("session");
    await first.turn("one");
    await first.kill();
    const second = await lab.start({ home: first.home, args: [`--resume=${id}`] });
    expect(await second.next("session")).toMatchObject({ id, resumed: true });
    await second.turn([{ shell: "true" }]);
    await second.kill();
    const third = await lab.start({ home: first.home, args: ["--resume", id] });
    const lines = await third.turn([{ say: "$history" }]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe('one\n#script [{"shell":"true"}]');
    const ids = [first, second, third].flatMap((agent) => idsOf(agent.said));
    expect(ids.length).toBeGreaterThan(3);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("is there before turn.ended is said, and survives kill -9", async () => {
    const agent = await lab.start();
    const { id } = await agent.next("session");
    await agent.turn([{ say: "a" }]);
    agent.signal("SIGKILL");
    await agent.exited;
    expect(readdirSync(join(agent.home, ".scripted"))).toEqual([`${id}.json`]);
    expect(await historyOf(id, agent.home)).toBe('#script [{"say":"a"}]');
  });

  it("survives a line that was not written to its end", async () => {
    const agent = await lab.start();
    const { id } = await agent.next("session");
    await agent.turn("one");
    await agent.kill();
    appendFileSync(join(agent.home, ".scripted", `${id}.json`), '{"texts":["tw');
    expect(await historyOf(id, agent.home)).toBe("one");
    expect(await historyOf(id, agent.home)).toBe('one\n#script [{"say":"$history"}]');
  });

  async function historyOf(id: string, home: string): Promise<string | undefined> {
    const resumed = await lab.start({ home, args: [`--resume=${id}`] });
    const lines = await resumed.turn([{ say: "$history" }]);
    await resumed.kill();
    return ofType(lines, "text.ended")[0]?.text;
  }

  it.each(["unknown", "../../etc/passwd", ""])("cannot resume %j: an error line and exit 1", async (id) => {
    const agent = await lab.start({ args: [`--resume=${id}`], ready: false });
    expect(await agent.exited).toEqual({ code: 1, signal: null });
    expect(agent.said).toMatchObject([{ type: "error", code: "unknown_session" }]);
    expect(agent.facts.map((fact) => fact.type)).toEqual(["error"]);
  });

  it("cannot resume a file that is no memory", async () => {
    const agent = await lab.start();
    await agent.kill();
    writeFileSync(join(agent.home, ".scripted", "torn.json"), '{"id":"to');
    const resumed = await lab.start({ home: agent.home, args: ["--resume=torn"], ready: false });
    expect(await resumed.exited).toEqual({ code: 1, signal: null });
  });
});

function idsOf(lines: readonly { type: string }[]): string[] {
  return lines.flatMap((line) => {
    const isOpening = line.type === "tool.called" || line.type === "text.started";
    return isOpening && "id" in line ? [String(line.id)] : [];
  });
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
