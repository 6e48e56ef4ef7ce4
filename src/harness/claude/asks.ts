import { type Fields, pick, toFields, toList, toText } from "../fields.ts";
import type { PermissionMetadata } from "../scribe.ts";
import { own } from "../transcript.ts";
import { toResponse } from "./encode.ts";
import { approvePlan, EXIT_PLAN_MODE, PLANS_ARE_OFF, refusePlan, toPlanPrompt } from "./plan-mode.ts";
import { type AskedQuestion, isInTurn, isServing, nextPhase, type Reader, type Reading } from "./state.ts";
import { keepInput } from "./tools.ts";
import { endTurn } from "./turns.ts";

/** A request of the CLI to its host. */
export const readControl: Reader = (reading, line) => {
  const request = toFields(line["request"]);
  const id = toText(line["request_id"]);
  if (request["subtype"] !== "can_use_tool")
    return void reading.replies.push(refusal(id, `sluice does not answer ${toText(request["subtype"])}`));
  // Between turns no user can be asked.
  if (!isServing(reading.state)) {
    const message = "Nobody is there to ask. Stop, and wait for the user.";
    return void reading.replies.push(toResponse(id, { behavior: "deny", message }));
  }
  switch (request["tool_name"]) {
    case "AskUserQuestion":
      return void askQuestion(reading, id, request);
    case EXIT_PLAN_MODE:
      return void askForPlan(reading, id, request);
    default:
      return void askPermission(reading, id, request);
  }
};

/** The CLI has withdrawn a request. */
export const readCancel: Reader = ({ scribe }, line) => {
  const request = toText(line["request_id"]);
  const [id, ask] = scribe.takeAsk((ask) => ask.request === request) ?? [];
  if (id === undefined || !ask) return undefined;
  if (ask.kind === "permission") {
    const metadata = { ...ask.metadata, by: "agent" };
    scribe.add({
      type: "permission.resolved",
      data: { permission_id: id, action: ask.tool, status: "denied", metadata },
    });
  } else {
    const prompt = ask.kind === "plan" ? toPlanPrompt(ask.plan) : toPrompt(ask.questions);
    const data = { question_id: id, ...prompt, status: "rejected" as const };
    scribe.add({ type: "question.resolved", data, ...(ask.kind === "plan" ? { source: "daemon" } : {}) });
  }
  return undefined;
};

/** The CLI's answer to a request of ours. */
export const readControlResponse: Reader = (reading, line) => {
  const id = toText(toFields(line["response"])["request_id"]);
  const { phase, interrupts, isIdle } = reading.state;
  const left = interrupts.filter((interrupt) => interrupt !== id);
  reading.change({ phase: nextPhase(phase, "answered"), interrupts: left });
  // An agent that has stopped already has nothing to interrupt, and sends no result.
  if (left.length < interrupts.length && isInTurn(reading.state) && isIdle)
    endTurn(reading, { status: "interrupted", stop_reason: "interrupted" });
  return undefined;
};

function askPermission(reading: Reading, id: string, request: Fields): void {
  const tool = toText(request["tool_name"]);
  const call = callOf(reading, request);
  const input = request["input"] ?? {};
  const rules = Array.isArray(request["permission_suggestions"]) ? request["permission_suggestions"] : [];
  const metadata: PermissionMetadata = {
    call_id: call.id,
    name: tool,
    input,
    kind: kindOf(tool),
    ...(rules.length === 0 ? {} : { suggestions: rules }),
    ...pick(request, ["description", "decision_reason", "blocked_path"]),
  };
  reading.scribe.askPermission(
    { kind: "permission", request: id, tool, input, rules, metadata },
    { action: tool, metadata, parent: call.parent },
  );
}

function askQuestion(reading: Reading, id: string, request: Fields): void {
  const call = callOf(reading, request);
  const input = toFields(request["input"]);
  const questions = toList(input["questions"]).map((question): AskedQuestion => ({
    text: toText(question["question"]),
    options: toList(question["options"]).map((option) => toText(option["label"])),
    takesMany: question["multiSelect"] === true,
  }));
  reading.scribe.askQuestion(
    { kind: "question", request: id, input, questions },
    { ...toPrompt(questions), parent: call.id },
  );
}

/** Claude asks for permission to leave plan mode. A person answers the plan, so the log has a question. */
function askForPlan(reading: Reading, id: string, request: Fields): void {
  const call = callOf(reading, request);
  const input = toFields(request["input"]);
  const { plans: verdict, inputs } = reading.state;
  if (verdict !== undefined) {
    reading.replies.push(toResponse(id, verdict === "deny" ? refusePlan(PLANS_ARE_OFF) : approvePlan(input)));
    return;
  }
  // The request has the plan only if the CLI keeps it in a file. Otherwise the plan is in the model's call.
  const written = toFields(own(inputs, call.id)?.value)["plan"];
  const plan = toText(input["plan"] ?? written);
  const question = { ...toPlanPrompt(plan), parent: call.id, source: "daemon" as const };
  reading.scribe.askQuestion({ kind: "plan", request: id, input, plan }, question);
}

function toPrompt(questions: readonly AskedQuestion[]): { prompt: string; options: string[] } {
  return {
    prompt: questions.map(({ text }) => text).join("\n"),
    options: questions.flatMap(({ options }) => options),
  };
}

/** The call of a request, and the call of its sub-agent. A call that was not reported before is reported now. */
function callOf(reading: Reading, request: Fields): { id: string; parent: string | undefined } {
  const { scribe } = reading;
  const id = toText(request["tool_use_id"]) || `call of ${toText(request["tool_name"])}`;
  const [name, input] = [toText(request["tool_name"]), request["input"] ?? {}];
  if (scribe.call(id, { name, input })) keepInput(reading, { id, name, input });
  const { calls } = scribe.transcript;
  const parentItem = own(calls, id)?.parent;
  if (parentItem === undefined) return { id, parent: undefined };
  return { id, parent: Object.keys(calls).find((native) => calls[native]?.item === parentItem) };
}

const KINDS: Readonly<Record<string, PermissionMetadata["kind"]>> = {
  Bash: "execute",
  PowerShell: "execute",
  Write: "edit",
  Edit: "edit",
  MultiEdit: "edit",
  NotebookEdit: "edit",
  Read: "read",
  Glob: "read",
  Grep: "read",
  LS: "read",
  WebFetch: "fetch",
  WebSearch: "fetch",
};

function kindOf(tool: string): PermissionMetadata["kind"] {
  if (tool.startsWith("mcp__")) return "mcp";
  return (Object.hasOwn(KINDS, tool) ? KINDS[tool] : undefined) ?? "other";
}

function refusal(id: string, error: string): string {
  return JSON.stringify({ type: "control_response", response: { subtype: "error", request_id: id, error } });
}
