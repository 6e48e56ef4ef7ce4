import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type Json, post } from "./wires.ts";

let model: ScriptedModel;
beforeAll(async () => {
  model = await createScriptedModel();
});
afterAll(() => model.close());

/** The real clients' tools that the steps need: names and arguments. */
const CLIENTS: Record<string, Record<string, string[]>> = {
  claude: {
    Bash: ["command", "description"],
    Write: ["file_path", "content"],
    Edit: ["file_path", "old_string", "new_string"],
    Read: ["file_path"],
    TodoWrite: ["todos"],
    AskUserQuestion: ["questions"],
    Agent: ["description", "prompt", "subagent_type", "run_in_background"],
    mcp__tiny__add: ["a", "b"],
  },
  opencode: {
    bash: ["command"],
    write: ["filePath", "content"],
    edit: ["filePath", "oldString", "newString"],
    read: ["filePath"],
    todowrite: ["todos"],
    question: ["questions"],
    task: ["description", "prompt", "subagent_type"],
    tiny_add: ["a", "b"],
  },
  gemini: {
    run_shell_command: ["command", "description"],
    write_file: ["file_path", "content"],
    replace: ["file_path", "instruction", "old_string", "new_string"],
    read_file: ["file_path"],
    write_todos: ["todos"],
    ask_user: ["questions"],
    invoke_agent: ["agent_name", "prompt"],
    mcp_tiny_add: ["a", "b"],
  },
  grok: {
    run_terminal_command: ["command", "description"],
    write: ["file_path", "content"],
    search_replace: ["file_path", "old_string", "new_string"],
    read_file: ["target_file"],
    todo_write: ["merge", "todos"],
    ask_user_question: ["questions"],
    spawn_subagent: ["prompt", "description", "background"],
    use_tool: ["tool_name", "tool_input"],
  },
};

const STEPS = [
  { shell: "ls" },
  { write: { path: "a.txt", content: "x" } },
  { edit: { path: "a.txt", old: "x", new: "y" } },
  { read: "a.txt" },
  { plan: [{ content: "Look", status: "in_progress" }] },
  { question: { prompt: "Which?", options: ["Red", "Blue"] } },
  { subagent: { name: "helper", steps: [{ say: "hi", chunks: 2 }, { ask: { shell: "ls" } }] } },
  { mcp: { server: "tiny", tool: "add", input: { a: 1, b: 2 } } },
];

async function callOf(
  step: unknown,
  tools: Record<string, string[]>,
): Promise<{ name: string; input: Json }> {
  const response = await post(`${model.url}/v1/messages`, {
    system: "Working directory: /work",
    messages: [{ role: "user", content: `#script ${JSON.stringify([step])}` }],
    tools: Object.entries(tools).map(([name, keys]) => ({
      name,
      input_schema: { type: "object", properties: Object.fromEntries(keys.map((key) => [key, {}])) },
    })),
  });
  const { content } = (await response.json()) as Json;
  return content[0];
}

describe.each(Object.entries(CLIENTS))("%s", (_, tools) => {
  it("has each step in its own tool, with that tool's arguments", async () => {
    const names = Object.keys(tools);
    for (const [index, step] of STEPS.entries()) {
      const { name, input } = await callOf(step, tools);
      expect(name).toBe(names[index]);
      expect(Object.keys(input).toSorted()).toEqual(tools[name]?.toSorted());
    }
  });

  it("names files by absolute paths", async () => {
    for (const step of STEPS.slice(1, 4))
      expect(Object.values((await callOf(step, tools)).input)).toContain("/work/a.txt");
  });

  it("deletes by the shell", async () => {
    const { input } = await callOf({ delete: "it's.txt" }, tools);
    expect(input.command).toBe(`rm -- 'it'\\''s.txt'`);
  });
});

it("a sub-agent's prompt is a script of its own", async () => {
  const { input } = await callOf(STEPS[6], CLIENTS["claude"] ?? {});
  const response = await post(`${model.url}/v1/chat/completions`, {
    messages: [{ role: "user", content: input.prompt }],
    tools: [{ type: "function", function: { name: "bash", parameters: {} } }],
  });
  const [choice] = ((await response.json()) as Json).choices;
  expect(choice.message).toMatchObject({ content: "hi", tool_calls: [{ function: { name: "bash" } }] });
});

describe("codex", () => {
  const PATCH = { type: "custom", name: "apply_patch" };
  const EXEC = { type: "function", name: "exec_command", parameters: { properties: { cmd: {} } } };
  const SEARCH = { type: "tool_search" };

  async function ask(steps: unknown[], input: unknown[] = [], tools: unknown[] = [PATCH, EXEC, SEARCH]) {
    const first = { role: "user", content: `#script ${JSON.stringify(steps)}` };
    const response = await post(`${model.url}/v1/responses`, { input: [first, ...input], tools });
    return ((await response.json()) as Json).output as Json[];
  }

  it("writes, edits and deletes by patches, an edit by whole lines", async () => {
    const [write] = await ask([{ write: { path: "a.txt", content: "one two\nthree\n" } }]);
    expect(write).toMatchObject({
      type: "custom_tool_call",
      name: "apply_patch",
      input: "*** Begin Patch\n*** Add File: a.txt\n+one two\n+three\n*** End Patch",
    });
    const steps = [
      { write: { path: "a.txt", content: "one two\nthree\n" } },
      { edit: { path: "a.txt", old: "two", new: "TWO" } },
    ];
    const [edit] = await ask(steps, [
      write,
      { type: "custom_tool_call_output", call_id: write.call_id, output: "ok" },
    ]);
    expect(edit.input).toBe("*** Begin Patch\n*** Update File: a.txt\n@@\n-one two\n+one TWO\n*** End Patch");
    const [removed] = await ask([{ delete: "a.txt" }]);
    expect(removed.input).toBe("*** Begin Patch\n*** Delete File: a.txt\n*** End Patch");
  });

  it("patches by a command where it has no tool for it", async () => {
    const [call] = await ask([{ write: { path: "a", content: "x" } }], [], [EXEC]);
    expect(JSON.parse(call.arguments).cmd).toContain("apply_patch <<'PATCH'\n*** Begin Patch");
  });

  it("searches for a deferred tool once, then calls it in its namespace", async () => {
    const steps = [{ mcp: { server: "tiny", tool: "add", input: { a: 1 } } }, { say: "end" }];
    const [search] = await ask(steps);
    expect(search).toMatchObject({ type: "tool_search_call", execution: "client" });
    const add = { type: "function", name: "add", parameters: { properties: { a: {} } } };
    const found = (tools: unknown[]) => ({ type: "tool_search_output", call_id: search.call_id, tools });
    const [call] = await ask(steps, [
      search,
      found([{ type: "namespace", name: "mcp__tiny", tools: [add] }]),
    ]);
    expect(call).toMatchObject({
      type: "function_call",
      name: "add",
      namespace: "mcp__tiny",
      arguments: '{"a":1}',
    });
    const [missing] = await ask(steps, [search, found([])]);
    expect(missing).toMatchObject({ type: "function_call", name: "mcp__tiny__add" });
  });

  it.each([
    [{ mcp: { server: "tiny", tool: "add", input: { a: 1 } } }, "mcp__tiny__add"],
    [{ custom: { name: "deploy", input: { a: 1 } } }, "deploy"],
  ])("calls a missing tool by its name, with a permission or without: %j", async (step, name) => {
    for (const steps of [[step], [{ ask: step }]]) {
      const [call] = await ask(steps, [], [EXEC]);
      expect(call).toMatchObject({ type: "function_call", name, arguments: '{"a":1}' });
    }
  });

  it("waits for a sub-agent before it goes on", async () => {
    const steps = [{ subagent: { name: "r", steps: [{ say: "hi" }] } }, { say: "end" }];
    const tools = ["spawn_agent", "wait_agent"].map((name) => ({ type: "function", name }));
    const [spawn] = await ask(steps, [], tools);
    expect(spawn.name).toBe("spawn_agent");
    const spawned = [spawn, toOutput(spawn, '{"agent_id":"a1"}')];
    const [wait] = await ask(steps, spawned, tools);
    expect(JSON.parse(wait.arguments)).toMatchObject({ targets: ["a1"] });
    const [end] = await ask(steps, [...spawned, wait, toOutput(wait, "{}")], tools);
    expect(end.content[0].text).toBe("end");
  });
});

describe("claude", () => {
  it("makes and changes tasks one by one where it has no list", async () => {
    const messages: unknown[] = [
      { role: "user", content: `#script ${JSON.stringify([toPlan("in_progress"), toPlan("completed")])}` },
    ];
    const tools = ["TaskCreate", "TaskUpdate"].map((name) => ({ name }));
    const ask = async () =>
      ((await (await post(`${model.url}/v1/messages`, { messages, tools })).json()) as Json).content;
    const first = await ask();
    expect(first.map(({ name, input }: Json) => [name, input.subject ?? input.taskId])).toEqual([
      ["TaskCreate", "A"],
      ["TaskUpdate", "1"],
      ["TaskCreate", "B"],
    ]);
    const results = first.map(({ id }: Json) => ({ type: "tool_result", tool_use_id: id, content: "ok" }));
    messages.push({ role: "assistant", content: first }, { role: "user", content: results });
    expect((await ask()).map(({ name, input }: Json) => [name, input])).toEqual([
      ["TaskUpdate", { taskId: "1", status: "completed" }],
      ["TaskUpdate", { taskId: "2", status: "pending" }],
    ]);
  });

  it("searches for a deferred tool by its name", async () => {
    const { name, input } = await callOf(
      { question: { prompt: "Which?" } },
      { ToolSearch: ["query", "max_results"] },
    );
    expect([name, input.query]).toEqual(["ToolSearch", "select:AskUserQuestion"]);
  });
});

function toOutput(call: Json, text: string): Json {
  return { type: "function_call_output", call_id: call.call_id, output: text };
}

function toPlan(first: string) {
  return { plan: [{ content: "A", status: first }, { content: "B" }] };
}
