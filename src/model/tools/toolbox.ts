import { TOOL_SERVER } from "../../contract/index.ts";
import type { QuestionStep, Step, ToolStep } from "../../scripted-agent/step.ts";
import type { OfferedTool } from "../ask.ts";
import { asObject } from "../json.ts";
import { callFileTool } from "./files.ts";
import {
  type Calling,
  callNative,
  callShell,
  type Input,
  type Native,
  type Scene,
  toCalling,
  toCode,
} from "./native.ts";
import { callPlanTool } from "./plan.ts";
import { callSubagentTool, toTask } from "./subagent.ts";

type CallStep = ToolStep | QuestionStep | Extract<Step, { do: "plan" }>;

/** The steps that are calls, those within `parallel` included. */
export function toCallSteps(steps: readonly Step[]): CallStep[] {
  return steps
    .flatMap((step): readonly Step[] => (step.do === "parallel" ? step.steps : [step]))
    .filter(isCallStep);
}

/** The calls of the client's tools for a step; undefined if no tool fits. `id` is the id of the first call. */
export function findCalls(step: CallStep, scene: Scene, id: string): readonly Calling[] | undefined {
  if (step.do === "plan") return callPlanTool(step, scene);
  const calling = findCall(step, scene, id);
  return calling === undefined ? undefined : [calling];
}

function findCall(step: Exclude<CallStep, { do: "plan" }>, scene: Scene, id: string): Calling | undefined {
  switch (step.do) {
    // The client itself asks for the permission.
    case "ask":
      return findCall(step.tool, scene, id);
    case "shell":
      return callShell(step.command, scene);
    case "question":
      return callQuestionTool(step, scene);
    case "subagent":
      return callSubagentTool(toTask(step, id), scene);
    case "mcp":
      return callMcpTool(step, scene);
    case "custom":
      return callCustomTool(step, scene);
    default:
      return callFileTool(step, scene);
  }
}

/** A search for a missing tool; undefined if the client has no search. */
export function searchCall(step: CallStep, scene: Scene): Calling | undefined {
  return searchFor(toSearchTerms(step.do === "ask" ? step.tool : step), scene);
}

/**
 * A call of a tool that the client does not offer. The client reports its failure to the model, and the script goes on.
 */
export function missingCall(step: CallStep): Calling {
  const wanted = step.do === "ask" ? step.tool : step;
  if (wanted.do === "custom") return { name: wanted.name, input: asObject(wanted.input) };
  if (wanted.do === "mcp")
    return { name: `mcp__${wanted.server}__${wanted.tool}`, input: asObject(wanted.input) };
  const { do: name, ...input } = wanted;
  return { name, input };
}

function toSearchTerms(step: Exclude<CallStep, { do: "ask" }>): { names: string[]; words: string } {
  switch (step.do) {
    case "plan":
      return { names: ["TaskCreate", "TaskUpdate", "TodoWrite"], words: "update plan todo tasks" };
    case "question":
      return { names: ["AskUserQuestion"], words: "ask the user a question" };
    case "subagent":
      return { names: ["Agent", "Task"], words: "spawn agent" };
    case "mcp":
      return { names: [`mcp__${step.server}__${step.tool}`], words: `${step.server} ${step.tool}` };
    case "custom":
      return { names: [step.name], words: step.name };
    default:
      return { names: [step.do], words: step.do };
  }
}

function isCallStep(step: Step): step is CallStep {
  return KINDS.has(step.do);
}

const KINDS = new Set<Step["do"]>([
  "shell",
  "write",
  "edit",
  "read",
  "delete",
  "custom",
  "mcp",
  "subagent",
  "ask",
  "question",
  "plan",
]);

function callQuestionTool(step: QuestionStep, scene: Scene): Calling | undefined {
  return callNative(QUESTIONS, step, scene);
}

const QUESTIONS: readonly Native<QuestionStep>[] = [
  { tool: "AskUserQuestion", input: toQuestions },
  { tool: "question", input: toQuestions },
  { tool: "request_user_input", input: toQuestions },
  { tool: "ask_user_question", input: toQuestions },
  { tool: "ask_user", input: toQuestions },
];

/** A question of a script may have no options; these tools need at least two. */
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

/** A call of the client's tool search. Clients with many tools hold some back until the model searches for them. */
function searchFor(
  { names, words }: { names: readonly string[]; words: string },
  { ask }: Scene,
): Calling | undefined {
  const search = ask.tools.find(({ name }) => name === "ToolSearch" || name === "tool_search");
  if (search?.name === "ToolSearch")
    return { name: "ToolSearch", input: { query: `select:${names.join(",")}`, max_results: 5 } };
  if (search === undefined) return undefined;
  return { name: "tool_search", input: { query: words, limit: 8 }, search: true };
}

/** Grok's tool for calls of tools that its request does not list. */
const PROXY = "use_tool";

/** Calls a tool of an MCP server. Clients spell its name in different ways. */
function callMcpTool(
  { server, tool, input }: { server: string; tool: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const wanted = new Set([`mcp${server}${tool}`, `${server}${tool}`].map(squeeze));
  const spelled = ask.tools.find(({ namespace = "", name }) => wanted.has(squeeze(namespace + name)));
  const found = spelled ?? ask.tools.find(({ name }) => name === tool);
  if (found !== undefined) return callFound(found, input);
  // Code can also call tools that are not declared.
  const code = ask.tools.find(({ within }) => within !== undefined)?.within;
  if (code !== undefined) return { ...code, input: toCode(`mcp__${server}__${tool}`, asObject(input)) };
  const proxy = ask.tools.find(({ name }) => name === PROXY);
  if (proxy === undefined) return undefined;
  return toCalling(proxy, { tool_name: `${server}__${tool}`, tool_input: asObject(input) });
}

/** Calls a tool of the application, with or without the prefix of the tool server. */
function callCustomTool(
  { name, input }: { name: string; input: unknown },
  { ask }: Scene,
): Calling | undefined {
  const found =
    ask.tools.find((tool) => tool.name === name) ?? ask.tools.find((tool) => tool.name.endsWith(`_${name}`));
  if (found !== undefined) return callFound(found, input);
  const code = ask.tools.find(({ within }) => within !== undefined)?.within;
  if (code !== undefined) return { ...code, input: toSearchingCode(name, asObject(input)) };
  const proxy = ask.tools.find((tool) => tool.name === PROXY);
  if (proxy === undefined) return undefined;
  return toCalling(proxy, { tool_name: `${TOOL_SERVER}__${name}`, tool_input: asObject(input) });
}

/** Code that finds a tool by its name: tools that are not declared are visible only when the code runs. */
function toSearchingCode(name: string, input: object): string {
  const wanted = JSON.stringify(name);
  return [
    `const found = ALL_TOOLS.find(({ name }) => name === ${wanted} || name.endsWith("__" + ${wanted}));`,
    `if (found === undefined) throw new Error("unsupported call: " + ${wanted});`,
    toCode("[found.name]", input as Input),
  ].join("\n");
}

/** Calls a tool with the script's arguments as they are, without a filter by the tool's schema. */
function callFound(tool: OfferedTool, input: unknown): Calling {
  const given = asObject(input);
  return tool.within === undefined ? { ...toCalling(tool, {}), input: given } : toCalling(tool, given);
}

function squeeze(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}
