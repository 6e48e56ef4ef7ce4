import { describe, expect, it } from "vitest";
import { ofType, openLab } from "../lab.ts";

const lab = openLab();

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
    const { agent } = await lab.perform([{ stderr: "one\ntwo\n" }, { stderr: "three" }]);
    await agent.until(() => agent.stderr === "one\ntwo\nthree\n" || undefined, "the text on stderr");
  });

  it("prints any line, and a foreign line is one unparsed fact", async () => {
    const lines = ["garbage", "[1]", '{"type":"new.thing"}'];
    const { agent } = await lab.perform([...lines.map((raw) => ({ raw })), { say: "on" }]);
    const unparsed = agent.facts.filter((fact) => fact.type === "agent.unparsed");
    expect(unparsed.map((fact) => fact.data.error)).toEqual([
      "the line is not a JSON object",
      "the line is not a JSON object",
      'unknown type "new.thing"',
    ]);
    expect(unparsed[0]?.data.raw_hash).toMatch(/^[0-9a-f]{64}$/);
  });

  it("prints bytes as they are, joined where no newline parts them, and goes on on a line of its own", async () => {
    const { agent } = await lab.perform([bytes("a"), bytes("b"), { rawBytes: "/w==" }, { say: "on" }]);
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
    const { lines } = await lab.perform([{ say: "a" }, { sleep: 30 }, { say: "b" }]);
    expect(ofType(lines, "text.ended").map((line) => line.text)).toEqual(["a", "b"]);
  });
});

function bytes(text: string): unknown {
  return { rawBytes: Buffer.from(text).toString("base64") };
}
