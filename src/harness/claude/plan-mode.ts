import type { SessionSpec } from "../../contract/index.ts";
import { ruleOf } from "../../contract/tool-names.ts";
import { type Fields, toText } from "../fields.ts";

/** The tool by which Claude leaves plan mode. Its approval is a question: the plan, and three options. */
export const EXIT_PLAN_MODE = "ExitPlanMode";

const APPROVE = "approve";
const APPROVE_WITH_EDITS = "approve and accept edits";
const REJECT = "reject";

const REFUSED = "The user rejected the plan. Stay in plan mode, and ask what should change.";
export const PLANS_ARE_OFF = `The tool "${EXIT_PLAN_MODE}" is switched off in this session.`;

/** The answer to every plan, if the session's rules or its permission mode decide without a person. */
export function planVerdict({ tools, permissionMode }: SessionSpec): { plans?: "allow" | "deny" } {
  const rule = ruleOf(tools, EXIT_PLAN_MODE) ?? (permissionMode === "bypass" ? "allow" : "ask");
  return rule === "ask" ? {} : { plans: rule };
}

export function toPlanPrompt(plan: string): { prompt: string; options: string[] } {
  return { prompt: plan === "" ? "Approve the plan?" : plan, options: [APPROVE, APPROVE_WITH_EDITS, REJECT] };
}

/** The response for an answer. An option decides; any other text, or no answer, refuses the plan. */
export function answerPlan(input: Fields, answers: readonly (readonly string[])[] | undefined): unknown {
  const answer = (answers ?? []).flat().join("\n").trim();
  switch (answer.toLowerCase()) {
    case APPROVE:
      return approvePlan(input);
    case APPROVE_WITH_EDITS:
      return {
        ...approvePlan(input),
        updatedPermissions: [{ type: "setMode", mode: "acceptEdits", destination: "session" }],
      };
    case REJECT:
    case "":
      return refusePlan(REFUSED);
    default:
      return refusePlan(answer);
  }
}

/** The inverse of `answerPlan`, for reading recordings. */
export function fromPlanAnswer(response: Fields): readonly (readonly string[])[] | undefined {
  if (response["behavior"] === "allow")
    return [[response["updatedPermissions"] === undefined ? APPROVE : APPROVE_WITH_EDITS]];
  const message = toText(response["message"]);
  return [[message === "" || message === REFUSED ? REJECT : message]];
}

export function approvePlan(input: Fields): object {
  return { behavior: "allow", updatedInput: input };
}

export function refusePlan(message: string): object {
  return { behavior: "deny", message };
}
