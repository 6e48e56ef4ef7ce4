import type { QuestionStep } from "../../harness/scripted/agent/step.ts";
import { callNative, type Calling, type Native, type Scene } from "./native.ts";

export function callQuestionTool(step: QuestionStep, scene: Scene): Calling | undefined {
  return callNative(QUESTIONS, step, scene);
}

const QUESTIONS: readonly Native<QuestionStep>[] = [
  { tool: "AskUserQuestion", input: toQuestions },
  { tool: "question", input: toQuestions },
  { tool: "request_user_input", input: toQuestions },
  { tool: "ask_user_question", input: toQuestions },
  { tool: "ask_user", input: toQuestions },
];

/** A question of a script has no choices where its answer is free; these tools want at least two. */
function toQuestions({ prompt, options }: QuestionStep) {
  const labels = options.length === 0 ? ["Yes", "No"] : options;
  return {
    questions: [
      {
        id: "question",
        header: "Question",
        question: prompt,
        type: "choice",
        multiSelect: false,
        options: labels.map((label) => ({ label, description: label })),
      },
    ],
  };
}
