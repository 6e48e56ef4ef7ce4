import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ofType, openLab } from "../lab.ts";

const lab = openLab();

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
