import type { ContentPart, Item, SessionSpec } from "../contract/index.ts";
import type { Harness, HarnessCommand, HarnessFact } from "./port.ts";
import { recordedContext } from "./recording.ts";

/** Seed 004's coverage features, and those that sluice adds. */
export const FEATURES = [
  "textMessages",
  "toolCalls",
  "toolResults",
  "questions",
  "permissions",
  "images",
  "fileAttachments",
  "sessionLifecycle",
  "errorEvents",
  "reasoning",
  "commandExecution",
  "fileChanges",
  "mcpTools",
  "streamingDeltas",
  "variants",
  "customTools",
  "plans",
  "subagents",
  "usage",
  "compaction",
  "interrupt",
  "retries",
  "resume",
] as const;
export type Feature = (typeof FEATURES)[number];
export type Coverage = Readonly<Record<Feature, boolean>>;

/** What an adapter covers, seen from what it makes of its sample and which commands it has words for. */
export function coverageOf(harness: Harness): Coverage {
  const { facts, answers } = rehearse(harness);
  const items = facts.flatMap((fact) => (fact.type === "item.completed" ? [fact.data.item] : []));
  const parts = items.flatMap((item) => item.content.map((part) => ({ item, part })));
  const types = new Set(facts.map((fact) => fact.type));
  const has = (test: (part: ContentPart, item: Item) => boolean) =>
    parts.some(({ item, part }) => test(part, item));
  const named = (pattern: RegExp) => has((part) => part.type === "tool_call" && pattern.test(part.name));
  const says = (command: HarnessCommand) => canSay(harness, command);
  return {
    textMessages: has((part, item) => part.type === "text" && item.role === "assistant"),
    toolCalls: has((part) => part.type === "tool_call"),
    toolResults: has((part) => part.type === "tool_result"),
    questions: answers.has("question.requested"),
    permissions: answers.has("permission.requested"),
    images: carries(harness, { type: "image", path: PROBE, mime: "image/png" }),
    fileAttachments: carries(harness, { type: "file_ref", path: PROBE, action: "read" }),
    sessionLifecycle: types.has("session.started"),
    errorEvents: types.has("error") || types.has("model.failed"),
    reasoning: has((part) => part.type === "reasoning"),
    commandExecution: named(
      /^(shell|bash|exec|exec_command|execute|command|local_shell|run_shell_command|run_terminal_command)$/i,
    ),
    fileChanges: has((part) => part.type === "file_ref" && part.action !== "read"),
    mcpTools: named(/^mcp__/),
    streamingDeltas: types.has("item.delta"),
    variants: hasVariants(harness),
    // Whoever can call an MCP server reaches the application's tools through the bridge.
    customTools: answers.has("tool.requested") || named(/^mcp__/),
    plans: types.has("plan.updated"),
    subagents: facts.some((fact) => fact.parent_id !== undefined),
    usage: facts.some((fact) => fact.type === "model.ended" && fact.data.usage !== undefined),
    compaction: types.has("context.compacted"),
    interrupt: says({ type: "interrupt" }),
    retries: types.has("turn.retrying") || (types.has("model.failed") && says({ type: "retry" })),
    resume: resumes(harness),
  };
}

const PROBE = "coverage-probe";

/** Decodes the sample, and at each request tries whether the harness could carry an answer there. */
function rehearse(harness: Harness): { facts: HarnessFact[]; answers: Set<string> } {
  const facts: HarnessFact[] = [];
  const answers = new Set<string>();
  let state = harness.initial(recordedContext(harness.id));
  for (const line of harness.sample) {
    const decoded = harness.decode(state, line);
    state = decoded.state;
    for (const fact of decoded.facts) {
      facts.push(fact);
      const answer = toAnswer(fact);
      if (answer !== undefined && (harness.encode(state, answer)?.length ?? 0) > 0) answers.add(fact.type);
    }
  }
  return { facts, answers };
}

function toAnswer(fact: HarnessFact): HarnessCommand | undefined {
  switch (fact.type) {
    case "permission.requested":
      return { type: "permission", id: fact.data.permission_id, reply: "once" };
    case "question.requested":
      return { type: "question", id: fact.data.question_id, answers: [["a"]] };
    case "tool.requested":
      return {
        type: "tool",
        id: fact.data.request_id,
        content: [{ type: "text", text: "a" }],
        isError: false,
      };
    default:
      return undefined;
  }
}

function canSay(harness: Harness, command: HarnessCommand): boolean {
  return says(harness, command).length > 0;
}

/** What it says at the end of its sample, when every handshake is done; else at the very beginning. */
function says(harness: Harness, command: HarnessCommand): readonly string[] {
  const first = harness.initial(recordedContext(harness.id));
  const last = harness.sample.reduce((state, line) => harness.decode(state, line).state, first);
  for (const state of [last, first]) {
    const lines = harness.encode(state, command);
    if (lines !== undefined && lines !== "later" && lines.length > 0) return lines;
  }
  return [];
}

/** Whether an attachment of a prompt reaches the agent at all. */
function carries(harness: Harness, part: ContentPart): boolean {
  const content: ContentPart[] = [{ type: "text", text: "Hello" }, part];
  return says(harness, { type: "prompt", inputId: "inp", content }).some((line) => line.includes(PROBE));
}

/** The native id is given to the program, or kept for the moment when it is asked to open a conversation. */
function resumes(harness: Harness): boolean {
  const state = harness.initial({ ...recordedContext(harness.id), resume: PROBE });
  return launchText(harness, {}, PROBE).includes(PROBE) || JSON.stringify(state).includes(PROBE);
}

function launchChanges(harness: Harness, spec: Partial<SessionSpec>): boolean {
  return launchText(harness, spec) !== launchText(harness, {});
}

function launchText(harness: Harness, spec: Partial<SessionSpec>, resume?: string): string {
  const context = {
    workspace: "/workspace",
    home: "/home",
    isRehearsal: true,
    ...(resume === undefined ? {} : { resume }),
  };
  // An agent that is only a protocol needs some program.
  const rehearsed = { agent: harness.id, command: [process.execPath], ...spec };
  return JSON.stringify(harness.launch(rehearsed, context));
}

/** Chosen when it is started, or once it runs. */
function hasVariants(harness: Harness): boolean {
  const variant = { variant: PROBE };
  return launchChanges(harness, variant) || handshakeChanges(harness, variant);
}

function handshakeChanges(harness: Harness, spec: Partial<SessionSpec>): boolean {
  return handshakeText(harness, spec) !== handshakeText(harness, {});
}

/** What a harness answers to its sample: some CLIs are told how to be only once they run. */
function handshakeText(harness: Harness, spec: Partial<SessionSpec>): string {
  const context = recordedContext(harness.id);
  let state = harness.initial({ ...context, spec: { ...context.spec, ...spec } });
  const said = harness.sample.map((line) => {
    const { state: next, facts, replies = [] } = harness.decode(state, line);
    state = next;
    return [replies, facts.filter((fact) => fact.type === "error")];
  });
  return JSON.stringify(said);
}
