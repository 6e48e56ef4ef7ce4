import type { Answer, NamelessAnswer } from "../acp/dialect.ts";
import type { AcpAsk } from "../acp/state.ts";
import { isRecord, type Params } from "../rpc.ts";

/** Answers to `_x.ai/ask_user_question` and `_x.ai/exit_plan_mode`. */
export function answerGrok(ask: AcpAsk, command: Answer): unknown {
  if (ask.kind === "plan" && command.type === "permission") {
    if (command.reply !== "reject") return { outcome: "approved" };
    return { outcome: "rejected", ...(command.message === undefined ? {} : { feedback: command.message }) };
  }
  if (ask.kind !== "question" || command.type !== "question") return undefined;
  const { answers } = command;
  if (answers === undefined) return { outcome: "cancelled" };
  const questions = ask.questions ?? [];
  return {
    outcome: "accepted",
    answers: Object.fromEntries(questions.map((question, index) => [question, [...(answers[index] ?? [])]])),
  };
}

export function hearGrokAnswer(
  ask: AcpAsk,
  { outcome, answers, feedback }: Params,
): NamelessAnswer | undefined {
  if (ask.kind === "plan") {
    if (outcome === "approved") return { type: "permission", reply: "once" };
    return {
      type: "permission",
      reply: "reject",
      ...(typeof feedback === "string" ? { message: feedback } : {}),
    };
  }
  if (outcome !== "accepted" || !isRecord(answers)) return { type: "question" };
  const given = (ask.questions ?? []).map((question) => {
    const chosen = answers[question];
    return Array.isArray(chosen) ? chosen.map(String) : [];
  });
  return { type: "question", answers: given };
}
