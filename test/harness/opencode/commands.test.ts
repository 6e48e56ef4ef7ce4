import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ContentPart } from "../../../src/contract/index.ts";
import { opencode } from "../../../src/harness/opencode/harness.ts";
import type { HarnessCommand } from "../../../src/harness/port.ts";
import { recordedContext } from "../../../src/harness/recording.ts";
import { sample } from "./sample.ts";
import { type State, sse, play, afterSample } from "./played.ts";

describe("OpenCode's input", () => {
  const text = fc.string().map((words): ContentPart => ({ type: "text", text: `:${words}` }));
  const parts = fc.oneof(
    text,
    fc.constant<ContentPart>({ type: "image", path: "data:image/png;base64,AA==", mime: "image/png" }),
    fc.string({ minLength: 1 }).map((path): ContentPart => ({ type: "file_ref", path, action: "read" })),
  );
  const said = { inputId: fc.string(), content: fc.array(parts, { minLength: 1 }) };
  const permission = stateWith("permission");
  const question = stateWith("question");

  it.each<[string, State, fc.Arbitrary<HarnessCommand>]>([
    ["a prompt", afterSample(), fc.record({ type: fc.constant("prompt" as const), ...said })],
    [
      "a compaction",
      afterSample(),
      fc.constant({ type: "prompt", inputId: "inp_1", content: [{ type: "text", text: "/compact" }] }),
    ],
    ["more words", permission.state, fc.record({ type: fc.constant("steer" as const), ...said })],
    ["an interrupt", permission.state, fc.constant({ type: "interrupt" })],
    [
      "a decision",
      permission.state,
      fc.record(
        {
          type: fc.constant("permission" as const),
          id: fc.constant(permission.ask),
          reply: fc.constantFrom("once" as const, "always" as const, "reject" as const),
          message: fc.string(),
        },
        { requiredKeys: ["type", "id", "reply"] },
      ) as fc.Arbitrary<HarnessCommand>,
    ],
    [
      "an answer",
      question.state,
      fc.record(
        {
          type: fc.constant("question" as const),
          id: fc.constant(question.ask),
          answers: fc.array(fc.array(fc.string()), { minLength: 1 }),
        },
        { requiredKeys: ["type", "id"] },
      ) as fc.Arbitrary<HarnessCommand>,
    ],
  ])("%s is read back as the same command", (_, state, commands) => {
    fc.assert(
      fc.property(commands, (command) => {
        const lines = opencode.encode(state, command);
        if (!Array.isArray(lines)) throw new Error(`no words for ${command.type}`);
        expect(lines.map((text: string) => opencode.overhear?.(state, { dir: "in", text, at: 0 }))).toEqual([
          command,
        ]);
      }),
    );
  });

  it("waits until there is a session", () => {
    const state = opencode.initial(recordedContext("opencode"));
    expect(opencode.encode(state, { type: "prompt", inputId: "", content: [] })).toBe("later");
    expect(opencode.encode(state, { type: "interrupt" })).toBe("later");
    expect(opencode.encode(state, { type: "steer", inputId: "", content: [] })).toBeUndefined();
  });

  it("is dropped when its request is closed", () => {
    const state = afterSample();
    expect(opencode.encode(state, { type: "permission", id: permission.ask, reply: "once" })).toEqual([]);
    expect(opencode.encode(state, { type: "question", id: question.ask })).toEqual([]);
  });

  it("carries the model, the agent and the variant of its session", () => {
    const spec = {
      agent: "opencode",
      model: "anthropic/claude-opus-4-5",
      permissionMode: "plan",
      variant: "high",
    } as const;
    const first = opencode.initial({ ...recordedContext("opencode"), spec });
    const state = play(sample.slice(0, 2), first).state;
    const [line] = opencode.encode(state, {
      type: "prompt",
      inputId: "",
      content: [{ type: "text", text: "Hi" }],
    }) as string[];
    const { body } = JSON.parse(line ?? "{}") as { body?: unknown };
    expect(body).toEqual({
      model: { providerID: "anthropic", modelID: "claude-opus-4-5" },
      agent: "plan",
      variant: "high",
      parts: [{ type: "text", text: "Hi" }],
    });
  });

  it("gives each question its own choice, and those without one none", () => {
    const questions = ["One?", "Two?", "Three?"].map((question) => ({ question, options: [{ label: "a" }] }));
    const asked = sse("question.asked", { id: "que_9", sessionID: "ses_1", questions });
    const { state, facts } = play([asked], play(sample.slice(0, 5)).state);
    const ask = facts.flatMap((fact) => (fact.type === "question.requested" ? [fact.data] : []))[0];
    expect(ask).toMatchObject({ prompt: "One?\nTwo?\nThree?", options: ["a", "a", "a"] });
    const answer = (answers: string[][]): unknown => {
      const [line] = opencode.encode(state, {
        type: "question",
        id: ask?.question_id ?? "",
        answers,
      }) as string[];
      return (JSON.parse(line ?? "{}") as { body: { answers: unknown } }).body.answers;
    };
    expect(answer([["a"], ["b"]])).toEqual([["a"], ["b"], []]);
    expect(answer([["a", "b", "c"]])).toEqual([["a"], ["b"], ["c"]]);
  });
});

/** The state in the middle of the sample, with an open ask. */
function stateWith(kind: "permission" | "question"): { state: State; ask: string } {
  for (let end = 1; end <= sample.length; end++) {
    const { state } = play(sample.slice(0, end));
    const found = Object.entries(state.transcript.asks).find(([, ask]) => ask.kind === kind);
    if (found) return { state, ask: found[0] };
  }
  throw new Error(`nothing in the sample asks a ${kind}`);
}
