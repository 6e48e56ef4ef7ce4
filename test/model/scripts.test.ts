import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type Json, post } from "./wires.ts";

let model: ScriptedModel;
beforeAll(async () => {
  model = await createScriptedModel();
});
afterAll(() => model.close());

/** Asks by chat completions, which have the simplest messages. */
async function chat(messages: unknown[], more: Record<string, unknown> = {}): Promise<Json> {
  const response = await post(`${model.url}/v1/chat/completions`, {
    model: "m",
    tools: [BASH],
    messages,
    ...more,
  });
  const body = (await response.json()) as Json;
  return body.choices?.[0].message ?? body;
}

const BASH = { type: "function", function: { name: "bash", parameters: { properties: { command: {} } } } };
const user = (content: unknown) => ({ role: "user", content });
const model_ = (content: string) => ({ role: "assistant", content });
const tool = (id: string, content: string) => ({ role: "tool", tool_call_id: id, content });

describe("which script drives", () => {
  it("the newest, wherever in the message its line is", async () => {
    const answer = await chat([
      user('#script [{"say":"old"}]'),
      model_("old"),
      user('Please play this:\n  #script [{"say":"new"}]\nThank you.'),
    ]);
    expect(answer.content).toBe("new");
  });

  it("a text of the client's own is neither a script nor a prompt", async () => {
    const answer = await chat([
      user("<environment>\n<cwd>/x</cwd>\n</environment>"),
      user([
        { type: "text", text: '#script [{"say":"played"}]' },
        { type: "text", text: "<system-reminder>be kind</system-reminder>" },
      ]),
      user("<system-reminder>and short</system-reminder>"),
    ]);
    expect(answer.content).toBe("played");
  });

  it("in the wrapping of a client", async () => {
    const wrapped = await chat([user('<user_query>\n#script [{"say":"wrapped"}]\n</user_query>')]);
    expect(wrapped.content).toBe("wrapped");
    const quoted = await chat([user('"#script [{\\"say\\":\\"a \\\\"b\\\\"\\"}]"')]);
    expect(quoted.content).toBe('a "b"');
  });

  it("a plain prompt behind the end of a script is quoted", async () => {
    const answer = await chat([user('#script [{"say":"one"}]'), model_("one"), user("and now?")]);
    expect(answer.content).toContain("“and now?”");
  });

  it("a plain prompt behind an interruption is quoted", async () => {
    const script = user('#script [{"say":"one"},{"shell":"ls"},{"say":"two"}]');
    const interrupted = await chat([script, user("[Request interrupted by user]"), user("stop, do this")]);
    expect(interrupted.content).toContain("“stop, do this”");
    const unanswered = await chat([script, user("never mind")]);
    expect(unanswered.content).toContain("“never mind”");
  });

  it("a text that comes while a script plays does not stop it", async () => {
    const script = user('#script [{"shell":"ls"},{"say":"two"}]');
    const first = await chat([script]);
    const answer = await chat([script, first, tool(first.tool_calls[0].id, "x"), user("hurry")]);
    expect(answer.content).toBe("two");
  });

  it("$history says the earlier user texts", async () => {
    const answer = await chat([
      user("<rules>none</rules>"),
      user("first words"),
      model_("yes"),
      user('#script [{"say":"second"}]'),
      model_("second"),
      user('#script [{"say":"$history"}]'),
    ]);
    expect(answer.content).toBe('first words\n#script [{"say":"second"}]');
  });
});

describe("how a script goes on", () => {
  it("ends with a word where its last step is a call", async () => {
    const script = user('#script [{"shell":"ls"}]');
    const first = await chat([script]);
    expect((await chat([script, first, tool(first.tool_calls[0].id, "x")])).content).toBe("Done.");
  });

  it("skips steps without a meaning for a model", async () => {
    const steps = [
      { stderr: "x" },
      { raw: "y" },
      { exit: 3 },
      { signal: "SIGKILL" },
      { compact: true },
      { image: { data: "" } },
      { say: "only this" },
    ];
    expect((await chat([user(`#script ${JSON.stringify(steps)}`)])).content).toBe("only this");
  });

  it("calls a tool that is not there by the step's name, and goes on", async () => {
    const script = user('#script [{"question":{"prompt":"Which?"}},{"say":"anyway"}]');
    const first = await chat([script]);
    expect(first.tool_calls[0].function).toMatchObject({ name: "question" });
    expect((await chat([script, first, tool(first.tool_calls[0].id, "no such tool")])).content).toBe(
      "anyway",
    );
  });

  it("gives no two calls of a conversation the same id", async () => {
    const script = user('#script [{"shell":"ls"},{"say":"x"}]');
    const first = await chat([script]);
    const again = await chat([script, first, tool(first.tool_calls[0].id, "x"), model_("x"), script]);
    expect(again.tool_calls[0].id).not.toBe(first.tool_calls[0].id);
  });

  it("goes on behind a summary of its own", async () => {
    const script = user('#script [{"say":"one"},{"shell":"a"},{"say":"two"},{"shell":"b"},{"say":"three"}]');
    const first = await chat([script]);
    const history = [script, first, tool(first.tool_calls[0].id, "x")];
    const summary = await chat([
      ...history,
      user("Please create a detailed summary of the conversation so far."),
    ]);
    expect(summary.tool_calls).toBeUndefined();
    expect(summary.content).not.toContain("#script");
    const second = await chat([user(`This session continues another.\n\n${summary.content}`)]);
    expect(second).toMatchObject({ content: "two", tool_calls: [{ function: { name: "bash" } }] });
    const third = await chat([script, user(summary.content), second, tool(second.tool_calls[0].id, "y")]);
    expect(third.content).toBe("three");
    const plain = await chat([user(summary.content), user("something else")]);
    expect(plain.content).toContain("“something else”");
  });

  it("goes on behind a summary of a conversation that was written out", async () => {
    const transcript = `<conversation>\n[User]: #script [{"shell":"a"},{"say":"two"}]\n\n[Assistant tool call]: bash({})\n[Tool result]: x\n</conversation>\n\nCreate a new anchored summary from the conversation history.`;
    const summary = await chat([user(transcript)], { tools: [] });
    const next = await chat([
      user("What did we do so far?"),
      model_(summary.content),
      user("Continue if you have next steps, or stop."),
    ]);
    expect(next.content).toBe("two");
  });

  it("a script that is over leaves nothing in a summary", async () => {
    const summary = await chat([
      user('#script [{"say":"one"}]'),
      model_("one"),
      user("You are performing a CONTEXT CHECKPOINT COMPACTION."),
    ]);
    expect((await chat([user(summary.content), user("hello")])).content).toContain("“hello”");
  });
});

describe("side calls", () => {
  it("titles", async () => {
    const system = { role: "system", content: "You are a title generator. You output ONLY a thread title." };
    const title = await chat([system, user('#script [{"say":"no"}]')], { tools: [] });
    expect(title.content).toBe("Scripted session");
  });

  it("a tool that has to be called", async () => {
    const named = { type: "object", properties: { session_title: { type: "string" } } };
    const answer = await chat([user('#script [{"say":"no"}]')], {
      tools: [{ type: "function", function: { name: "session_title", parameters: named } }],
      tool_choice: { type: "function", function: { name: "session_title" } },
    });
    expect(answer.tool_calls[0].function).toEqual({
      name: "session_title",
      arguments: '{"session_title":"Scripted session"}',
    });
  });

  it("a verdict that has to fit a schema", async () => {
    const responseJsonSchema = {
      type: "object",
      properties: {
        reasoning: { type: "string" },
        next_speaker: { type: "string", enum: ["model", "user"] },
        score: { type: "integer" },
        flags: { type: "array" },
      },
    };
    const response = await post(`${model.url}/v1beta/models/m:generateContent`, {
      contents: [{ role: "user", parts: [{ text: '#script [{"say":"no"}]' }] }],
      generationConfig: { responseJsonSchema },
    });
    const { candidates } = (await response.json()) as Json;
    expect(JSON.parse(candidates[0].content.parts[0].text)).toMatchObject({ next_speaker: "user", score: 1 });
  });

  it("a script plays without tools all the same", async () => {
    expect((await chat([user('#script [{"say":"yes"}]')], { tools: [] })).content).toBe("yes");
  });
});
