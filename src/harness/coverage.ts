import type { ContentPart, Item, SessionSpec } from "../contract/index.ts";
import { type Feature, FEATURES, type Harness, type HarnessCommand, type HarnessFact } from "./port.ts";
import { recordedContext } from "./recording.ts";

export { type Feature, FEATURES };
export type Coverage = Readonly<Record<Feature, boolean>>;

type Sampled = Harness & Required<Pick<Harness, "sample">>;

/** The features of an adapter: computed from its sample, else all but those in `lacks`. */
export function coverageOf(harness: Harness): Coverage {
  if (isSampled(harness)) return sampledCoverage(harness);
  const { lacks = FEATURES } = harness;
  return Object.fromEntries(FEATURES.map((feature) => [feature, !lacks.includes(feature)])) as Coverage;
}

function isSampled(harness: Harness): harness is Sampled {
  return harness.sample !== undefined;
}

function sampledCoverage(harness: Sampled): Coverage {
  const { facts, answers } = rehearse(harness);
  const items = facts.flatMap((fact) => (fact.type === "item.completed" ? [fact.data.item] : []));
  const parts = items.flatMap((item) => item.content.map((part) => ({ item, part })));
  const types = new Set(facts.map((fact) => fact.type));
  const has = (test: (part: ContentPart, item: Item) => boolean) =>
    parts.some(({ item, part }) => test(part, item));
  const named = (pattern: RegExp) => has((part) => part.type === "tool_call" && pattern.test(part.name));
  const says = (command: HarnessCommand) => linesFor(harness, command).length > 0;
  return {
    textMessages: has((part, item) => part.type === "text" && item.role === "assistant"),
    toolCalls: has((part) => part.type === "tool_call"),
    toolResults: has((part) => part.type === "tool_result"),
    questions: answers.has("question.requested"),
    permissions: answers.has("permission.requested"),
    images: takesPart(harness, { type: "image", path: PROBE, mime: "image/png" }),
    fileAttachments: takesPart(harness, { type: "file_ref", path: PROBE, action: "read" }),
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
    // An agent that calls MCP servers reaches the application's tools through the tool server.
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

/** Decodes the sample, and encodes an answer to each request. `answers`: the types of requests that can be answered. */
function rehearse(harness: Sampled): { facts: HarnessFact[]; answers: Set<string> } {
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

/** The lines of a command after the sample, so after all handshakes. If there are none, the lines before the sample. */
function linesFor(harness: Sampled, command: HarnessCommand): readonly string[] {
  const first = harness.initial(recordedContext(harness.id));
  const last = harness.sample.reduce((state, line) => harness.decode(state, line).state, first);
  for (const state of [last, first]) {
    const lines = harness.encode(state, command);
    if (lines !== undefined && lines !== "later" && lines.length > 0) return lines;
  }
  return [];
}

/** Whether an attachment of a prompt reaches the agent. */
function takesPart(harness: Sampled, part: ContentPart): boolean {
  const content: ContentPart[] = [{ type: "text", text: "Hello" }, part];
  return linesFor(harness, { type: "prompt", inputId: "inp", content }).some((line) => line.includes(PROBE));
}

/** Whether the native id is an argument of the launch, or in the state that opens the conversation. */
function resumes(harness: Sampled): boolean {
  const state = harness.initial({ ...recordedContext(harness.id), resume: PROBE });
  return launchText(harness, {}, PROBE).includes(PROBE) || JSON.stringify(state).includes(PROBE);
}

function launchText(harness: Harness, spec: Partial<SessionSpec>, resume?: string): string {
  const context = {
    workspace: "/workspace",
    home: "/home",
    isRehearsal: true,
    ...(resume === undefined ? {} : { resume }),
  };
  // The adapter `acp` needs a command.
  const rehearsed = { agent: harness.id, command: [process.execPath], ...spec };
  return JSON.stringify(harness.launch(rehearsed, context));
}

/** Whether a variant changes the launch or the handshake. */
function hasVariants(harness: Sampled): boolean {
  const variant = { variant: PROBE };
  return [launchText, handshakeText].some((read) => read(harness, variant) !== read(harness, {}));
}

/** The replies and errors of the sample. Some CLIs get their settings only there, after their start. */
function handshakeText(harness: Sampled, spec: Partial<SessionSpec>): string {
  const context = recordedContext(harness.id);
  let state = harness.initial({ ...context, spec: { ...context.spec, ...spec } });
  const said = harness.sample.map((line) => {
    const { state: next, facts, replies = [] } = harness.decode(state, line);
    state = next;
    return [replies, facts.filter((fact) => fact.type === "error")];
  });
  return JSON.stringify(said);
}
