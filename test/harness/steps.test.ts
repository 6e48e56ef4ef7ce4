import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { AgentLab, ofType, type RunningAgent } from "./scripted-agent.ts";

const lab = new AgentLab();
afterEach(() => lab.stopAll());
afterAll(() => lab.remove());

async function perform(
  steps: unknown[],
): Promise<{ agent: RunningAgent; lines: Awaited<ReturnType<RunningAgent["turn"]>> }> {
  const agent = await lab.start();
  return { agent, lines: await agent.turn(steps) };
}

describe("say and think", () => {
  it("says one delta per word, and their concatenation is the text", async () => {
    const text = "  Hello,\twide\n\nworld — 𝄞 music ";
    const { lines } = await perform([{ say: text }]);
    const deltas = ofType(lines, "text.delta").map((line) => line.text);
    expect(deltas).toEqual(["  Hello,", "\twide", "\n\nworld", " —", " 𝄞", " music "]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe(text);
  });

  it.each([
    ["Hello world", 3],
    ["𝄞𝄞𝄞𝄞", 4],
    ["a𝄞b", 2],
  ])("says %j in %d chunks", async (text, chunks) => {
    const { lines } = await perform([{ say: text, chunks }]);
    const deltas = ofType(lines, "text.delta").map((line) => line.text);
    expect(deltas).toHaveLength(chunks);
    expect(deltas.join("")).toBe(text);
    for (const delta of deltas) expect(() => encodeURIComponent(delta)).not.toThrow();
  });

  it("never sends an empty delta, however many chunks are asked for", async () => {
    const { lines } = await perform([{ say: "hi", chunks: 5 }, { say: "" }]);
    expect(ofType(lines, "text.delta").map((line) => line.text)).toEqual(["h", "i"]);
    expect(ofType(lines, "text.ended").map((line) => line.text)).toEqual(["hi", ""]);
  });

  it("thinks", async () => {
    const { agent, lines } = await perform([{ think: "Let me see" }]);
    expect(ofType(lines, "thinking.ended")[0]?.text).toBe("Let me see");
    const { data } = await agent.fact("item.completed");
    expect(data.item).toMatchObject({
      kind: "message",
      role: "assistant",
      content: [{ type: "reasoning", text: "Let me see", visibility: "public" }],
    });
  });

  it("says every earlier user text, one per line", async () => {
    const agent = await lab.start();
    await agent.turn("first");
    await agent.turn("second");
    const lines = await agent.turn([{ say: "$history" }]);
    expect(ofType(lines, "text.ended")[0]?.text).toBe("first\nsecond");
  });
});

describe("shell", () => {
  it("runs in the workspace, streams as it comes, and ends with the whole output", async () => {
    const { agent, lines } = await perform([{ shell: "pwd; echo oops >&2; printf done" }]);
    const output = `${agent.workspace}\noops\ndone`;
    expect(
      ofType(lines, "tool.output")
        .map((line) => line.text)
        .join(""),
    ).toBe(output);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ output, failed: false, exit_code: 0 });
  });

  it("streams before the command is over", async () => {
    const agent = await lab.start();
    agent.script([{ shell: "echo early; while [ ! -e go ]; do sleep 0.02; done; echo late" }]);
    await agent.next("tool.output", { where: (line) => line.text.includes("early") });
    expect(ofType(agent.said, "tool.ended")).toEqual([]);
    writeFileSync(join(agent.workspace, "go"), "");
    expect((await agent.next("tool.ended")).output).toBe("early\nlate\n");
  });

  it("fails with a non-zero exit, and keeps the code", async () => {
    const { agent, lines } = await perform([{ shell: "echo bad; exit 3" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ output: "bad\n", failed: true, exit_code: 3 });
    const results = agent.facts.flatMap((fact) =>
      fact.type === "item.completed" && fact.data.item.kind === "tool_result" ? [fact.data.item] : [],
    );
    expect(results[0]).toMatchObject({
      status: "failed",
      content: [
        { type: "tool_result", output: "bad\n" },
        { type: "json", json: { exit_code: 3 } },
      ],
    });
  });

  it("says 128 plus the signal for a command that was killed", async () => {
    const { lines } = await perform([{ shell: "kill -9 $$" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: true, exit_code: 137 });
  });

  it("does not wait for what a command leaves in the background", async () => {
    const { agent, lines } = await perform([{ shell: "sleep 1000 & echo $!" }, { say: "on" }]);
    const pid = Number(ofType(lines, "tool.ended")[0]?.output);
    expect(ofType(lines, "text.ended")[0]?.text).toBe("on");
    process.kill(pid, "SIGKILL");
    await agent.kill();
  });

  it("keeps characters whole that come in two writes", async () => {
    const { lines } = await perform([{ shell: String.raw`printf '\303'; sleep 0.05; printf '\251'` }]);
    expect(ofType(lines, "tool.ended")[0]?.output).toBe("é");
    expect(
      ofType(lines, "tool.output")
        .map((line) => line.text)
        .join(""),
    ).toBe("é");
  });

  it("gives 100 MB whole", async () => {
    const { lines } = await perform([{ shell: "head -c 100000000 /dev/zero | tr '\\0' x" }]);
    const streamed = ofType(lines, "tool.output").reduce((sum, line) => sum + line.text.length, 0);
    expect(streamed).toBe(100_000_000);
    expect(ofType(lines, "tool.ended")[0]?.output.length).toBe(100_000_000);
  });
});

describe("file tools", () => {
  it("writes, reads, edits and deletes for real", async () => {
    const agent = await lab.start();
    const before = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";
    const lines = await agent.turn([
      { write: { path: "deep/a.txt", content: before } },
      { shell: "cp deep/a.txt before.txt" },
      { edit: { path: "deep/a.txt", old: "four\nfive", new: "4" } },
      { read: "deep/a.txt" },
    ]);
    const after = before.replace("four\nfive", "4");
    const [written, , edited, read] = ofType(lines, "tool.ended");
    expect(written?.file).toEqual({ path: "deep/a.txt", action: "write" });
    expect(edited?.file).toMatchObject({ path: "deep/a.txt", action: "patch" });
    expect(read).toMatchObject({
      output: after,
      failed: false,
      file: { path: "deep/a.txt", action: "read" },
    });
    expect(readFileSync(join(agent.workspace, "deep/a.txt"), "utf8")).toBe(after);
    expect(edited?.file?.diff).toBe(
      "--- a/deep/a.txt\n+++ b/deep/a.txt\n@@ -1,8 +1,7 @@\n one\n two\n three\n-four\n-five\n+4\n six\n seven\n eight\n",
    );
    await agent.turn([{ delete: "deep/a.txt" }]);
    expect(existsSync(join(agent.workspace, "deep/a.txt"))).toBe(false);
  });

  it("shows the file in the tool's result", async () => {
    const { agent } = await perform([{ write: { path: "a", content: "x" } }]);
    const { data } = await agent.fact("item.completed");
    expect(data.item).toMatchObject({ kind: "tool_result", role: "tool", status: "completed" });
    expect(data.item.content[1]).toEqual({ type: "file_ref", path: "a", action: "write" });
  });

  it.each([
    [{ read: "nothing" }, /ENOENT/],
    [{ delete: "nothing" }, /ENOENT/],
    [{ delete: "." }, /folder/],
    [{ edit: { path: "nothing", old: "a", new: "b" } }, /ENOENT/],
    [{ write: { path: ".", content: "" } }, /EISDIR/],
  ])("fails %j with a message and goes on", async (step, message) => {
    const { lines } = await perform([step, { say: "on" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({
      failed: true,
      output: expect.stringMatching(message),
    });
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });

  it("fails an edit whose text is not there", async () => {
    const { lines } = await perform([
      { write: { path: "a", content: "x" } },
      { edit: { path: "a", old: "y", new: "z" } },
    ]);
    expect(ofType(lines, "tool.ended")[1]).toMatchObject({
      failed: true,
      output: expect.stringMatching(/not in it/),
    });
  });
});

describe("questions and application tools", () => {
  it("echoes the answer as the next message", async () => {
    const agent = await lab.start();
    agent.script([{ question: { prompt: "Which?", options: ["a", "b"] } }]);
    const { data } = await agent.fact("question.requested");
    expect(data).toEqual({
      question_id: "ques_p1n2",
      prompt: "Which?",
      options: ["a", "b"],
      status: "requested",
    });
    agent.command({ type: "question", id: data.question_id, answers: [["b"]] });
    expect((await agent.next("text.ended")).text).toBe("b");
    await agent.next("turn.ended");
  });

  it("says that a question was rejected", async () => {
    const agent = await lab.start();
    agent.script([{ question: { prompt: "Which?" } }]);
    const { data } = await agent.fact("question.requested");
    agent.command({ type: "question", id: data.question_id });
    expect((await agent.next("text.ended")).text).toMatch(/rejected/);
  });

  it("hands a custom tool to the application and echoes its result", async () => {
    const agent = await lab.start();
    agent.script([{ custom: { name: "weather", input: { city: "Oslo" } } }]);
    const { data } = await agent.fact("tool.requested");
    expect(data).toMatchObject({ name: "weather", input: { city: "Oslo" } });
    expect(agent.facts.filter((fact) => fact.type === "item.started")).toHaveLength(1);
    agent.command({
      type: "tool",
      id: data.request_id,
      content: [{ type: "text", text: "rain" }],
      isError: false,
    });
    expect((await agent.next("text.ended")).text).toBe("rain");
    const call = await agent.next("tool.called");
    expect(data.call_id).toBe(call.id);
    expect(await agent.next("tool.ended")).toMatchObject({ id: call.id, output: "rain", failed: false });
    await agent.next("turn.ended");
  });

  it("marks the result of a custom tool that failed", async () => {
    const agent = await lab.start();
    agent.script([{ custom: { name: "weather" } }]);
    const { data } = await agent.fact("tool.requested");
    agent.command({
      type: "tool",
      id: data.request_id,
      content: [{ type: "text", text: "no" }],
      isError: true,
    });
    expect(await agent.next("tool.ended")).toMatchObject({ output: "no", failed: true });
  });
});

describe("ask", () => {
  it.each([{ shell: "echo ran > ran" }, { write: { path: "ran", content: "" } }])(
    "runs %j only once it is allowed",
    async (tool) => {
      const agent = await lab.start();
      agent.script([{ ask: tool }]);
      const { data } = await agent.fact("permission.requested");
      const call = await agent.next("tool.called");
      expect(data).toMatchObject({
        action: call.name,
        metadata: { call_id: call.id, name: call.name, input: call.input },
      });
      expect(ofType(agent.said, "tool.started")).toEqual([]);
      expect(existsSync(join(agent.workspace, "ran"))).toBe(false);
      agent.command({ type: "permission", id: data.permission_id, reply: "once" });
      await agent.next("turn.ended");
      expect(existsSync(join(agent.workspace, "ran"))).toBe(true);
      const order = agent.facts.map((fact) => fact.type);
      expect(order.indexOf("item.completed")).toBeLessThan(order.indexOf("permission.requested"));
      expect(order.lastIndexOf("item.started")).toBeGreaterThan(order.indexOf("permission.requested"));
    },
  );

  it("fails the call with the rejection's message", async () => {
    const agent = await lab.start();
    agent.script([{ ask: { shell: "echo ran > ran" } }, { say: "on" }]);
    const { data } = await agent.fact("permission.requested");
    agent.command({ type: "permission", id: data.permission_id, reply: "reject", message: "not today" });
    expect(await agent.next("tool.ended")).toMatchObject({ failed: true, output: "not today" });
    await agent.next("turn.ended");
    expect(existsSync(join(agent.workspace, "ran"))).toBe(false);
  });

  it("asks no more for a tool that is always allowed, and still for others", async () => {
    const agent = await lab.start();
    agent.script([{ ask: { shell: "true" } }]);
    const { data } = await agent.fact("permission.requested");
    agent.command({ type: "permission", id: data.permission_id, reply: "always" });
    await agent.next("turn.ended");
    const lines = await agent.turn([{ ask: { shell: "echo free" } }]);
    expect(ofType(lines, "tool.ended")[0]?.output).toBe("free\n");
    const from = agent.said.length;
    agent.script([{ ask: { read: "x" } }]);
    expect((await agent.next("permission.asked", { from })).name).toBe("read");
  });
});

describe("plan, usage, refuse, compact, image", () => {
  it("shows a plan as a whole list, and as a status item", async () => {
    const { agent } = await perform([
      {
        plan: [
          { content: "look", status: "completed", priority: "high" },
          { content: "leap", status: "in_progress", priority: "low" },
          { content: "land" },
        ],
      },
    ]);
    const { data } = await agent.fact("plan.updated");
    expect(data.entries[2]).toEqual({ content: "land", status: "pending", priority: "medium" });
    const { data: shown } = await agent.fact("item.completed");
    expect(shown.item).toMatchObject({
      kind: "status",
      content: [{ type: "status", label: "plan", detail: "1 of 3 done: leap" }],
    });
  });

  it("reports the usage that a script gives, for the current request", async () => {
    const { agent, lines } = await perform([
      { say: "a" },
      { usage: { input_tokens: 7, output_tokens: 9 } },
      { shell: "true" },
      { say: "four" },
    ]);
    const ends = ofType(lines, "model.ended");
    expect(ends[0]).toMatchObject({ usage: { input_tokens: 7, output_tokens: 9 }, estimated: false });
    expect(ends[1]).toMatchObject({ usage: { output_tokens: 1 }, estimated: true });
    const facts = agent.facts.filter((fact) => fact.type === "model.ended");
    expect(facts.map((fact) => fact.data.usage_source)).toEqual(["reported", "estimated"]);
  });

  it("has a model request in every turn, ended before tools run", async () => {
    const { lines } = await perform([{ shell: "true" }]);
    expect(lines.map((line) => line.type)).toEqual([
      "turn.started",
      "model.started",
      "tool.called",
      "model.ended",
      "tool.started",
      "tool.ended",
      "turn.ended",
    ]);
  });

  it("refuses", async () => {
    const { agent } = await perform([{ refuse: "not that" }, { say: "never" }]);
    const { data } = await agent.fact("turn.ended");
    expect(data).toEqual({
      turn_id: "",
      status: "completed",
      stop_reason: "refusal",
      details: { reason: "not that" },
    });
    expect(ofType(agent.said, "text.started")).toEqual([]);
  });

  it("compacts", async () => {
    const { agent } = await perform([{ compact: true }]);
    await agent.fact("context.compacted");
    const { data } = await agent.fact("item.completed");
    expect(data.item).toMatchObject({ kind: "status", content: [{ label: "context compacted" }] });
  });

  it("shows an image", async () => {
    const { agent } = await perform([{ image: { data: "iVBORw0=", mimeType: "image/png" } }]);
    const { data } = await agent.fact("item.completed");
    expect(data.item.content).toEqual([
      { type: "image", path: "data:image/png;base64,iVBORw0=", mime: "image/png" },
    ]);
  });
});

describe("parallel and subagent", () => {
  it("runs tools at the same time, each under its own id", async () => {
    const { lines } = await perform([
      {
        parallel: [
          { shell: "touch left; while [ ! -e right ]; do sleep 0.02; done; echo l" },
          { shell: "touch right; while [ ! -e left ]; do sleep 0.02; done; echo r" },
        ],
      },
    ]);
    const ends = ofType(lines, "tool.ended");
    expect(ends.map((line) => line.output).sort()).toEqual(["l\n", "r\n"]);
    expect(new Set(ends.map((line) => line.id)).size).toBe(2);
    expect(ofType(lines, "model.ended")).toHaveLength(1);
  });

  it("asks for several things at once", async () => {
    const agent = await lab.start();
    agent.script([
      { parallel: [{ ask: { shell: "echo a" } }, { custom: { name: "c" } }, { question: { prompt: "q" } }] },
    ]);
    const permission = await agent.fact("permission.requested");
    const tool = await agent.fact("tool.requested");
    const question = await agent.fact("question.requested");
    agent.command({ type: "question", id: question.data.question_id, answers: [["Q"]] });
    agent.command({
      type: "tool",
      id: tool.data.request_id,
      content: [{ type: "text", text: "C" }],
      isError: false,
    });
    agent.command({ type: "permission", id: permission.data.permission_id, reply: "once" });
    await agent.next("turn.ended");
    expect(ofType(agent.said, "text.ended").map((line) => line.text)).toEqual(["C", "Q"]);
  });

  it("nests a sub-agent's steps under its call", async () => {
    const { agent } = await perform([
      { subagent: { name: "r", steps: [{ say: "nested" }, { shell: "echo in" }, { say: "result" }] } },
      { say: "outer" },
    ]);
    const call = ofType(agent.said, "tool.called")[0];
    expect(call).toMatchObject({ name: "subagent", input: { name: "r" } });
    expect(ofType(agent.said, "tool.ended").at(-1)).toMatchObject({
      id: call?.id,
      output: "result",
      failed: false,
    });
    const items = agent.facts.filter((fact) => fact.type === "item.completed");
    const parent = items[0]?.data.item.item_id;
    const nested = items.filter((fact) => fact.parent_id === parent);
    expect(nested.map((fact) => fact.data.item.kind)).toEqual([
      "message",
      "tool_call",
      "tool_result",
      "message",
    ]);
    expect(agent.facts.find((fact) => fact.type === "item.delta")?.parent_id).toBe(parent);
    expect(
      agent.facts.filter((fact) => fact.type === "model.ended" && fact.parent_id === parent),
    ).toHaveLength(2);
    expect(items.at(-1)?.parent_id).toBeUndefined();
  });

  it("gives a sub-agent's refusal back as its failed result", async () => {
    const { lines } = await perform([{ subagent: { name: "r", steps: [{ refuse: "no" }] } }, { say: "on" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: true, output: "no" });
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });
});

describe("fail", () => {
  it.each(["overloaded", "rate_limited", "bad_gateway"] as const)(
    "stands still at %s until it is retried",
    async (kind) => {
      const agent = await lab.start();
      agent.script([{ fail: { kind, times: 2 } }, { say: "at last" }]);
      for (let attempt = 1; attempt <= 2; attempt++) {
        await agent.until(
          () => ofType(agent.said, "model.failed").length === attempt || undefined,
          "a failure",
        );
        const fact = await agent.fact("model.failed");
        expect(fact).toMatchObject({ code: kind, retryable: true });
        expect(ofType(agent.said, "text.started")).toEqual([]);
        agent.command({ type: "retry" });
      }
      expect((await agent.next("text.ended")).text).toBe("at last");
      await agent.next("turn.ended");
      expect(ofType(agent.said, "model.failed")).toHaveLength(2);
      const started = agent.facts.filter((fact) => fact.type === "model.started");
      const ended = agent.facts.filter((fact) => fact.type === "model.ended");
      expect(ended.map((fact) => fact.data.request_id)).toEqual(started.map((fact) => fact.data.request_id));
      expect(ended[0]?.data.error?.code).toBe(kind);
    },
  );

  it("does not end the turn at a terminal failure, and takes the next prompt as a new turn", async () => {
    const agent = await lab.start();
    agent.script([{ subagent: { name: "r", steps: [{ fail: { kind: "terminal" } }] } }, { say: "never" }]);
    expect(await agent.fact("model.failed")).toMatchObject({ code: "terminal", retryable: false });
    const from = agent.said.length;
    agent.script([{ say: "fresh" }]);
    await agent.next("turn.ended");
    const later = agent.said.slice(from);
    expect(later[0]).toMatchObject({ type: "turn.started", turn: 2 });
    expect(ofType(later, "text.ended").map((line) => line.text)).toEqual(["fresh"]);
    expect(ofType(later, "tool.ended")).toEqual([]);
    expect(agent.facts.filter((fact) => fact.type === "agent.unparsed")).toEqual([]);
  });
});

describe("stderr, raw, rawBytes, exit, signal, sleep", () => {
  it("writes to stderr as it is", async () => {
    const { agent } = await perform([{ stderr: "one\ntwo\n" }, { stderr: "three" }]);
    await agent.until(() => agent.stderr === "one\ntwo\nthree\n" || undefined, "the text on stderr");
  });

  it("prints any line, and what is no line of ours is one unparsed fact", async () => {
    const { agent } = await perform([{ raw: "garbage" }, { raw: '{"type":"new.thing"}' }, { say: "on" }]);
    const unparsed = agent.facts.filter((fact) => fact.type === "agent.unparsed");
    expect(unparsed.map((fact) => fact.data.error)).toEqual([
      "the line is not a JSON object",
      'unknown type "new.thing"',
    ]);
    expect(unparsed[0]?.data.raw_hash).toMatch(/^[0-9a-f]{64}$/);
  });

  it("prints bytes as they are, joined where no newline parts them, and goes on on a line of its own", async () => {
    const { agent } = await perform([bytes("a"), bytes("b"), { rawBytes: "/w==" }, { say: "on" }]);
    expect(agent.lines.map((line) => line.text)).toContain("ab\ufffd");
    expect(ofType(agent.said, "turn.ended")).toHaveLength(1);
  });

  it("leaves the last line unterminated when it exits there", async () => {
    const agent = await lab.start();
    agent.script([{ say: "last words" }, bytes("cut"), { exit: 3 }]);
    expect(await agent.exited).toEqual({ code: 3, signal: null });
    expect(ofType(agent.said, "text.ended")[0]?.text).toBe("last words");
    expect(agent.rest.toString()).toBe("cut");
  });

  it.each(["SIGKILL", "SIGTERM", "SIGSEGV"] as const)("dies of %s", async (signal) => {
    const agent = await lab.start();
    agent.script([{ signal }]);
    expect(await agent.exited).toEqual({ code: null, signal });
  });

  it("sleeps between two steps", async () => {
    const { lines } = await perform([{ say: "a" }, { sleep: 30 }, { say: "b" }]);
    expect(ofType(lines, "text.ended").map((line) => line.text)).toEqual(["a", "b"]);
  });
});

describe("flood", () => {
  it("sends 200,000 deltas in one message, and their sum is its text", async () => {
    const { agent } = await perform([{ flood: { events: 200_000, bytes: 40 } }]);
    const deltas = agent.facts.flatMap((fact) => (fact.type === "item.delta" ? [fact.data.delta] : []));
    expect(deltas).toHaveLength(200_000);
    for (const [index, delta] of deltas.entries()) {
      if (delta.length !== 40 || !delta.startsWith(`${index} `))
        throw new Error(`delta ${index} is ${delta}`);
    }
    const { data } = await agent.fact("item.completed");
    expect(data.item.content).toEqual([{ type: "text", text: deltas.join("") }]);
  });
});

describe("a prompt that is no script", () => {
  it("gets a plan, a thought, a command, a file and an answer that quotes it", async () => {
    const agent = await lab.start();
    const lines = await agent.turn("What is “up”?");
    expect(
      ofType(lines, "plan")
        .at(-1)
        ?.entries.map((entry) => entry.status),
    ).toEqual(Array(3).fill("completed"));
    expect(ofType(lines, "thinking.ended")).toHaveLength(1);
    const [shell] = ofType(lines, "tool.ended");
    expect(shell).toMatchObject({
      failed: false,
      output: execFileSync("sh", ["-c", "uname -s && date +%Y"]).toString(),
    });
    expect(readFileSync(join(agent.workspace, "hello-from-sluice.md"), "utf8")).toContain("What is “up”?");
    expect(ofType(lines, "text.ended").at(-1)?.text).toContain("What is “up”?");
  });
});

function bytes(text: string): unknown {
  return { rawBytes: Buffer.from(text).toString("base64") };
}
