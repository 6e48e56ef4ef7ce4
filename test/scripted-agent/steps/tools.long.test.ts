import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ofType, openLab } from "../lab.ts";

const lab = openLab();

describe("shell", () => {
  it("runs in the workspace, streams as it comes, and ends with the whole output", async () => {
    const { agent, lines } = await lab.perform([{ shell: "pwd; echo oops >&2; printf done" }]);
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
    const { agent, lines } = await lab.perform([{ shell: "echo bad; exit 3" }]);
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
    const { lines } = await lab.perform([{ shell: "kill -9 $$" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: true, exit_code: 137 });
  });

  it("does not wait for a command's background processes", async () => {
    const { agent, lines } = await lab.perform([{ shell: "sleep 1000 & echo $!" }, { say: "on" }]);
    const pid = Number(ofType(lines, "tool.ended")[0]?.output);
    expect(ofType(lines, "text.ended")[0]?.text).toBe("on");
    process.kill(pid, "SIGKILL");
    await agent.kill();
  });

  it("keeps characters whole that come in two writes", async () => {
    const { lines } = await lab.perform([{ shell: String.raw`printf '\303'; sleep 0.05; printf '\251'` }]);
    expect(ofType(lines, "tool.ended")[0]?.output).toBe("é");
    expect(
      ofType(lines, "tool.output")
        .map((line) => line.text)
        .join(""),
    ).toBe("é");
  });

  it("gives 100 MB whole", async () => {
    const { lines } = await lab.perform([{ shell: "head -c 100000000 /dev/zero | tr '\\0' x" }]);
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
    const { agent } = await lab.perform([{ write: { path: "a", content: "x" } }]);
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
    const { lines } = await lab.perform([step, { say: "on" }]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({
      failed: true,
      output: expect.stringMatching(message),
    });
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });

  it("fails an edit whose text is not there", async () => {
    const { lines } = await lab.perform([
      { write: { path: "a", content: "x" } },
      { edit: { path: "a", old: "y", new: "z" } },
    ]);
    expect(ofType(lines, "tool.ended")[1]).toMatchObject({
      failed: true,
      output: expect.stringMatching(/not in it/),
    });
  });
});

describe("parallel and subagent", () => {
  it("runs tools at the same time, each under its own id", async () => {
    const { lines } = await lab.perform([
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
    const { agent } = await lab.perform([
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
    const { lines } = await lab.perform([
      { subagent: { name: "r", steps: [{ refuse: "no" }] } },
      { say: "on" },
    ]);
    expect(ofType(lines, "tool.ended")[0]).toMatchObject({ failed: true, output: "no" });
    expect(ofType(lines, "turn.ended")[0]?.stop_reason).toBe("end_turn");
  });
});
