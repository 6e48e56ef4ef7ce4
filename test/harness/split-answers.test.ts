import { expect, it } from "vitest";
import { toAnswers } from "../../src/dialects/ag-ui/answers.ts";
import type { RunInput } from "../../src/dialects/ag-ui/parse.ts";
import { questionLine } from "../../src/harness/codex/answers.ts";

const RUN = { runId: "run" };
const ASKS = {
  ques_1: { kind: "question", prompt: "two?" },
  tool_1: { kind: "tool", prompt: "weather", callId: "call" },
} as const;

function answersOf(input: Partial<RunInput>): ReturnType<typeof toAnswers> {
  return toAnswers({ threadId: "t", runId: "run", messages: [], ...input } as RunInput, ASKS, RUN);
}

it("a list of choices of an AG-UI client reaches each of several questions", () => {
  const payload = { answers: ["a", "b"] };
  const [answer] = answersOf({ resume: [{ interruptId: "ques_1", status: "resolved", payload }] });
  const given = answer !== undefined && "answers" in answer ? answer.answers : undefined;
  const ask = { kind: "question", id: 1, questions: ["first", "second"] } as const;
  const line = JSON.parse(questionLine(ask as never, given)) as { result: unknown };
  expect(line.result).toEqual({ answers: { first: { answers: ["a"] }, second: { answers: ["b"] } } });
});

it("an empty list of an AG-UI client is no answer", () => {
  const payload = { answers: [] };
  const [answer] = answersOf({ resume: [{ interruptId: "ques_1", status: "resolved", payload }] });
  expect(answer).toMatchObject({ answers: [] });
});

it("a request is answered once, by the last message about it", () => {
  const message = { role: "tool", toolCallId: "call" } as const;
  const messages = [
    { ...message, id: "1", content: "sun" },
    { ...message, id: "2", content: "rain" },
  ];
  expect(answersOf({ messages })).toMatchObject([{ id: "tool_1", output: "rain" }]);
});
