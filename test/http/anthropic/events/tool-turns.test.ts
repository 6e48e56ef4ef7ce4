import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, openAnthropic } from "../anthropic-bench.ts";
import {
  allowing,
  awaitedIds,
  type Event,
  expectListed,
  history,
  isEnd,
  makeSession,
  ofType,
  turn,
  typesOf,
  watch,
  wordsOf,
} from "../session-bench.ts";
import { ASKING } from "../toolsets.ts";

let bench: AnthropicBench;
beforeAll(async () => {
  bench = await openAnthropic();
});
afterAll(() => bench.close());

describe("G3: a tool that may run", () => {
  it("appears with its permission, and its result refers to it", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(bench, id, { shell: "echo hi" }, { say: "done" });
    const [use] = ofType(events, "agent.tool_use");
    expect(use).toMatchObject({
      name: "bash",
      input: { command: "echo hi" },
      evaluated_permission: "allow",
      evaluation: { type: "always_allow" },
    });
    const [result] = ofType(events, "agent.tool_result");
    expect(result).toMatchObject({ tool_use_id: use?.id, is_error: false });
    expect(JSON.stringify(result?.content)).toContain("hi");
    // The model request ends behind its call.
    expect(typesOf(events)).toEqual([
      "user.message",
      "session.status_running",
      "span.model_request_start",
      "agent.tool_use",
      "span.model_request_end",
      "agent.tool_result",
      "span.model_request_start",
      "agent.message",
      "span.model_request_end",
      "session.status_idle",
    ]);
    await expectListed(bench, id, events);
  });

  it("has the toolset's own names and inputs", async () => {
    const { id } = await makeSession(bench);
    const events = await turn(
      bench,
      id,
      { write: { path: "a.txt", content: "one" } },
      { edit: { path: "a.txt", old: "one", new: "two" } },
      { read: "a.txt" },
      { shell: "exit 3" },
    );
    expect(ofType(events, "agent.tool_use").map(({ name, input }) => [name, input])).toEqual([
      ["write", { file_path: "a.txt", content: "one" }],
      ["edit", { file_path: "a.txt", old_string: "one", new_string: "two" }],
      ["read", { file_path: "a.txt" }],
      ["bash", { command: "exit 3" }],
    ]);
    expect(ofType(events, "agent.tool_result").map(({ is_error }) => is_error)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });
});

describe("a tool that needs a confirmation", () => {
  it("G4: waits, and runs when it is allowed", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const first = await turn(bench, id, { shell: "echo made > made.txt" }, { say: "done" });
    const [use] = ofType(first, "agent.tool_use");
    expect(use).toMatchObject({ evaluated_permission: "ask", evaluation: { type: "always_ask" } });
    expect(first.at(-1)).toMatchObject({
      type: "session.status_idle",
      stop_reason: { type: "requires_action", event_ids: [use?.id] },
    });
    expect((await bench.beta.sessions.retrieve(id)).status).toBe("idle");
    const files = await bench.test.engine.files(id);
    await expect(files.stat("made.txt")).rejects.toThrow();

    const allowed = allowing(use?.id);
    const second = await watch(bench, id, () => bench.send(id, allowed));
    expect(typesOf(second).slice(0, 3)).toEqual([
      "user.tool_confirmation",
      "session.status_running",
      "agent.tool_result",
    ]);
    expect(second[0]).toMatchObject({ tool_use_id: use?.id, result: "allow" });
    expect(second.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect((await files.stat("made.txt")).size).toBe(5);
    await expectListed(bench, id, [...first, ...second]);
  });

  it("G5: does not run when denied, and the model gets the reason", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const first = await turn(bench, id, { shell: "echo made > made.txt" }, { say: "went on" });
    const [use] = ofType(first, "agent.tool_use");
    const denied = {
      type: "user.tool_confirmation",
      tool_use_id: use?.id,
      result: "deny",
      deny_message: "not on a Sunday",
    };
    const second = await watch(bench, id, () => bench.send(id, denied));
    expect(second[0]).toMatchObject({ ...denied });
    const [result] = ofType(second, "agent.tool_result");
    expect(result).toMatchObject({ tool_use_id: use?.id, is_error: true });
    expect(JSON.stringify(result?.content)).toContain("not on a Sunday");
    expect(wordsOf(second)).toEqual(["went on"]);
    await expect((await bench.test.engine.files(id)).stat("made.txt")).rejects.toThrow();
  });

  it("stays listed as pending while others are resolved", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const first = await turn(bench, id, { parallel: [{ shell: "echo a" }, { shell: "echo b" }] });
    const all = await collectUntil(id, first, (events) => awaitedIds(events).length === 2);
    const [one, other] = awaitedIds(all);
    const second = await watch(bench, id, () => bench.send(id, allowing(other)));
    expect(awaitedIds(second)).toEqual([one]);
    const third = await watch(bench, id, () => bench.send(id, allowing(one)), isEnd);
    expect(third.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
  });

  it("accepts one answer of the right type, for its own id only", async () => {
    const { id } = await makeSession(bench, { tools: [ASKING] });
    const other = await makeSession(bench);
    const first = await turn(bench, id, { shell: "true" });
    const [use] = ofType(first, "agent.tool_use");
    const confirmation = { type: "user.tool_confirmation", tool_use_id: use?.id ?? "", result: "allow" };
    const before = await history(bench, id);
    const wrong = [
      { ...confirmation, tool_use_id: "sevt_nope" },
      { ...confirmation, tool_use_id: (before[0] as { id: string }).id },
      { ...confirmation, deny_message: "no" },
      { type: "user.tool_result", tool_use_id: use?.id, content: [] },
      { type: "user.custom_tool_result", custom_tool_use_id: use?.id, content: [] },
    ];
    for (const event of wrong) await expect(bench.send(id, event)).rejects.toMatchObject({ status: 400 });
    await expect(bench.send(other.id, confirmation)).rejects.toMatchObject({ status: 400 });
    // A batch with one surplus answer has no effect.
    await expect(bench.send(id, confirmation, confirmation)).rejects.toMatchObject({ status: 409 });
    expect(await history(bench, id)).toEqual(before);
    await watch(bench, id, () => bench.send(id, confirmation), isEnd);
    const refused = await bench.send(id, confirmation).catch((error: unknown) => error);
    expect(refused).toMatchObject({ status: 409 });
    expect((refused as { headers: Headers }).headers.get("x-should-retry")).toBe("false");
  });
});

describe("a tool that is switched off", () => {
  const off = { type: "agent_toolset_20260401", configs: [{ name: "bash", enabled: false }] };

  it("does not run, and the agent continues", async () => {
    const { id } = await makeSession(bench, { tools: [off] });
    const events = await turn(
      bench,
      id,
      { shell: "touch ran" },
      { ask: { shell: "touch ran" } },
      { write: { path: "a.txt", content: "x" } },
      { read: "ran" },
    );
    const uses = ofType(events, "agent.tool_use");
    expect(uses.map(({ name, evaluated_permission: how }) => [name, how])).toEqual([
      ["bash", "deny"],
      ["bash", "deny"],
      ["write", "allow"],
      ["read", "allow"],
    ]);
    const results = ofType(events, "agent.tool_result");
    const refusal = {
      is_error: true,
      content: [{ type: "text", text: expect.stringContaining("switched off") }],
    };
    expect(results.slice(0, 2)).toEqual([expect.objectContaining(refusal), expect.objectContaining(refusal)]);
    expect(results.map(({ is_error: failed }) => failed)).toEqual([true, true, false, true]);
    expect(results.map(({ tool_use_id }) => tool_use_id)).toEqual(uses.map((use) => use.id));
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    expect(typesOf(events)).not.toContain("user.tool_confirmation");
    await expectListed(bench, id, events);
  });

  it("does not run in the application either, and can be enabled again", async () => {
    const { id } = await makeSession(bench, { tools: [off], selfHosted: true });
    const events = await turn(bench, id, { shell: "hostname" }, { say: "done" });
    expect(ofType(events, "agent.tool_use")).toMatchObject([{ evaluated_permission: "deny" }]);
    expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
    await bench.beta.sessions.update(id, { agent: { tools: [{ type: "agent_toolset_20260401" }] } });
    const later = await turn(bench, id, { shell: "hostname" });
    expect(ofType(later, "agent.tool_use")).toMatchObject([{ evaluated_permission: "allow" }]);
    expect(later.at(-1)).toMatchObject({ stop_reason: { type: "requires_action" } });
  });

  it("may be all tools except one", async () => {
    const { id } = await makeSession(bench, {
      tools: [
        {
          type: "agent_toolset_20260401",
          default_config: { enabled: false },
          configs: [{ name: "read", enabled: true }],
        },
      ],
    });
    const events = await turn(bench, id, { write: { path: "a.txt", content: "x" } }, { read: "a.txt" });
    expect(ofType(events, "agent.tool_use").map((use) => use.evaluated_permission)).toEqual([
      "deny",
      "allow",
    ]);
  });
});

/** The events so far, once there are enough: requests may arrive one by one. */
async function collectUntil(
  id: string,
  first: readonly Event[],
  isEnough: (events: readonly Event[]) => boolean,
): Promise<Event[]> {
  for (let events = [...first]; ; events = await history(bench, id)) if (isEnough(events)) return events;
}
