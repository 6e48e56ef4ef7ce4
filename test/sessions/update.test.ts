import { afterEach, describe, expect, it } from "vitest";
import type { ToolSettings } from "../../src/contract/index.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  script,
  SCRIPTED,
  type TestEngine,
  waitFor,
} from "../support/engine.ts";
import { expectLawful } from "../support/laws.ts";

let test: TestEngine;
afterEach(() => test.close());

const open = async (tools?: ToolSettings): Promise<void> => {
  test = await openEngine();
  await test.engine.create("s", { ...SCRIPTED, title: "a", ...(tools === undefined ? {} : { tools }) });
};

describe("an update", () => {
  it("appends only the differences", async () => {
    await open();
    await test.engine.update("s", { title: "b", metadata: {} });
    await test.engine.update("s", { title: "b" });
    await test.engine.update("s", { title: "b", metadata: { k: "v" } });
    const updates = ofType(await readAll(test.log, "s"), "session.updated");
    expect(updates.map(({ data }) => data)).toEqual([{ title: "b" }, { metadata: { k: "v" } }]);
    expect((await test.engine.info("s")).title).toBe("b");
  });

  it("of the tools holds from the next turn on, and after a restart", async () => {
    await open();
    await runTurn(test, "s", script({ shell: "true" }));
    await test.engine.update("s", { settings: { tools: { rules: { bash: "ask" } } } });
    await test.restart();
    const { turnId } = await say(test.engine, "s", script({ shell: "true" }));
    const asked = await waitFor(test.log, "s", "permission.requested");
    await test.engine.resolvePermission("s", asked.data.permission_id, { reply: "once" });
    await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === turnId });
    expectLawful(await readAll(test.log, "s"));
  });

  it("of the tools is refused while a turn runs", async () => {
    await open();
    await say(test.engine, "s", script({ sleep: 60_000 }));
    await waitFor(test.log, "s", "turn.started");
    const change = { settings: { tools: { rules: { bash: "ask" } } } } as const;
    await expect(test.engine.update("s", change)).rejects.toMatchObject({ code: "session_busy" });
    await test.engine.interrupt("s");
  });
});

describe("the rules of a session", () => {
  it("ask where they say so, and for nothing else", async () => {
    await open({ rules: { "*": "allow", bash: "ask" } });
    const { turnId } = await say(test.engine, "s", script({ read: "none" }, { shell: "echo hi" }));
    const asked = await waitFor(test.log, "s", "permission.requested");
    expect(asked.data.action).toBe("shell");
    await test.engine.resolvePermission("s", asked.data.permission_id, {
      reply: "reject",
      message: "not now",
    });
    await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === turnId });
    const events = await readAll(test.log, "s");
    expect(ofType(events, "permission.requested")).toHaveLength(1);
    const results = ofType(events, "item.completed").filter(({ data }) => data.item.kind === "tool_result");
    expect(JSON.stringify(results.at(-1)?.data.item.content)).toContain("not now");
  });

  it("do not answer a request of a script", async () => {
    await open({ rules: { bash: "allow" } });
    const { turnId } = await say(test.engine, "s", script({ ask: { shell: "true" } }));
    const asked = await waitFor(test.log, "s", "turn.waiting");
    await test.engine.resolvePermission("s", asked.data.actions[0]?.id ?? "", { reply: "once" });
    await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === turnId });
  });

  it("leave a built-in tool to the application", async () => {
    await open({ client: ["bash"], rules: { bash: "ask" } });
    const { turnId } = await say(test.engine, "s", script({ shell: "touch never" }));
    const asked = await waitFor(test.log, "s", "permission.requested");
    await test.engine.resolvePermission("s", asked.data.permission_id, { reply: "once" });
    const wanted = await waitFor(test.log, "s", "tool.requested");
    expect(wanted.data).toMatchObject({ name: "shell", input: { command: "touch never" } });
    await test.engine.resolveTool("s", wanted.data.request_id, { output: "done elsewhere" });
    await waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === turnId });
    const events = await readAll(test.log, "s");
    expectLawful(events);
    expect(JSON.stringify(events)).toContain("done elsewhere");
    expect((await (await test.engine.files("s")).list(".")).map(({ name }) => name)).not.toContain("never");
  });
});
