import { own } from "../transcript.ts";
import { endTurn } from "./ending.ts";
import { type Fields, toFields, toList, toText } from "./fields.ts";
import { keepInput } from "./inputs.ts";
import {
  approvePlan,
  EXIT_PLAN_MODE,
  PLANS_ARE_OFF as OFF,
  refusePlan,
  toPlanPrompt,
} from "./plan-approval.ts";
import type { Reader, Reading } from "./reading.ts";
import type { PermissionMetadata } from "../scribe.ts";
import type { AskedQuestion, ClaudeState } from "./state.ts";
import { toResponse } from "./response.ts";
import { isServing } from "./system.ts";

/** The CLI asks its host. */
export const readControl: Reader = (state, line, reading) => {
  const request = toFields(line["request"]);
  const id = toText(line["request_id"]);
  if (request["subtype"] !== "can_use_tool") {
    reading.replies.push(refusal(id, `sluice does not answer ${toText(request["subtype"])}`));
    return state;
  }
  // Nobody can be asked between turns.
  if (!isServing(state)) {
    reading.replies.push(denial(id, "Nobody is there to ask. Stop, and wait for the user."));
    return state;
  }
  switch (request["tool_name"]) {
    case "AskUserQuestion":
      return askQuestion(state, { id, request }, reading);
    case EXIT_PLAN_MODE:
      return askForPlan(state, { id, request }, reading);
    default:
      return askPermission(state, { id, request }, reading);
  }
};

/** It has withdrawn what it asked. */
export const readCancel: Reader = (state, line, { scribe }) => {
  const request = toText(line["request_id"]);
  const id = scribe.findAsk((ask) => ask.request === request);
  const ask = id === undefined ? undefined : own(scribe.transcript.asks, id);
  if (id === undefined || !ask) return state;
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
  scribe.forgetAsk(id);
  return state;
};

/** It has done what its host asked of it, or has not. */
export const readControlResponse: Reader = (state, line, { scribe }) => {
  const id = toText(toFields(line["response"])["request_id"]);
  const next = {
    ...state,
    isReady: true,
    interrupts: state.interrupts.filter((interrupt) => interrupt !== id),
  };
  const isInterrupt = next.interrupts.length < state.interrupts.length;
  // An agent that had stopped already has nothing to interrupt, and sends no result.
  if (!isInterrupt || !state.inTurn || !state.isIdle) return next;
  return endTurn(next, { status: "interrupted", stop_reason: "interrupted" }, scribe);
};

interface Asked {
  readonly id: string;
  readonly request: Fields;
}

function askPermission(state: ClaudeState, { id, request }: Asked, { scribe }: Reading): ClaudeState {
  const tool = toText(request["tool_name"]);
  const call = callOf(state, request, scribe);
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
  scribe.askPermission(
    { kind: "permission", request: id, tool, input, rules, metadata },
    { action: tool, metadata, parent: call.parent },
  );
  return call.state;
}

function askQuestion(state: ClaudeState, { id, request }: Asked, { scribe }: Reading): ClaudeState {
  const call = callOf(state, request, scribe);
  const input = toFields(request["input"]);
  const questions = toList(input["questions"]).map((question): AskedQuestion => ({
    text: toText(question["question"]),
    options: toList(question["options"]).map((option) => toText(option["label"])),
    takesMany: question["multiSelect"] === true,
  }));
  scribe.askQuestion(
    { kind: "question", request: id, input, questions },
    { ...toPrompt(questions), parent: call.id },
  );
  return call.state;
}

/** Claude asks for a permission to leave plan mode; what it needs is an answer to its plan. */
function askForPlan(state: ClaudeState, { id, request }: Asked, { scribe, replies }: Reading): ClaudeState {
  const call = callOf(state, request, scribe);
  const input = toFields(request["input"]);
  const verdict = state.plans;
  if (verdict === undefined) {
    // The CLI does not repeat what the model wrote: only a plan that it keeps in a file is in the request.
    const written = toFields(own(call.state.inputs, call.id)?.value)["plan"];
    const plan = toText(input["plan"] ?? written);
    const question = { ...toPlanPrompt(plan), parent: call.id, source: "daemon" as const };
    scribe.askQuestion({ kind: "plan", request: id, input, plan }, question);
  } else {
    replies.push(toResponse(id, verdict === "deny" ? refusePlan(OFF) : approvePlan(input)));
  }
  return call.state;
}

function toPrompt(questions: readonly AskedQuestion[]): { prompt: string; options: string[] } {
  return {
    prompt: questions.map(({ text }) => text).join("\n"),
    options: questions.flatMap(({ options }) => options),
  };
}

/** The call that is asked for, told now if it was not before, and the sub-agent that makes it. */
function callOf(
  state: ClaudeState,
  request: Fields,
  scribe: Reading["scribe"],
): { id: string; parent: string | undefined; state: ClaudeState } {
  const id = toText(request["tool_use_id"]) || `call of ${toText(request["tool_name"])}`;
  const [name, input] = [toText(request["tool_name"]), request["input"] ?? {}];
  const isNew = scribe.call(id, { name, input });
  const { calls } = scribe.transcript;
  const above = own(calls, id)?.parent;
  const parent =
    above === undefined ? undefined : Object.keys(calls).find((native) => calls[native]?.item === above);
  return { id, parent, state: isNew ? keepInput(state, { id, name, input }) : state };
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

function pick(fields: Fields, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])),
  );
}

function refusal(id: string, error: string): string {
  return JSON.stringify({ type: "control_response", response: { subtype: "error", request_id: id, error } });
}

function denial(id: string, message: string): string {
  return toResponse(id, { behavior: "deny", message });
}
