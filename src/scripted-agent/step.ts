import { constants } from "node:os";
import { asRecord, BadScript, describe, Fields } from "./fields.ts";
import type { AgentPlanEntry, AgentUsage, FailureKind } from "./protocol.ts";

/** A parsed step of a script, with the defaults of its options. */
export type Step =
  | ToolStep
  | QuestionStep
  | SleepStep
  | { do: "say" | "think"; text: string; chunks?: number }
  | { do: "plan"; entries: AgentPlanEntry[] }
  | { do: "parallel"; steps: BranchStep[] }
  | { do: "usage"; usage: AgentUsage }
  | { do: "fail"; kind: FailureKind | ModelFailureKind; times: number }
  | { do: "refuse"; reason: string }
  | { do: "compact" }
  | { do: "flood"; events: number; bytes: number }
  | { do: "image"; data: string; mime: string }
  | { do: "stderr" | "raw"; text: string }
  | { do: "rawBytes"; bytes: Uint8Array }
  | { do: "exit"; code: number }
  | { do: "signal"; signal: NodeJS.Signals };

/** Tool steps that an `ask` step can contain. */
export type BareToolStep =
  | { do: "shell"; command: string }
  | { do: "write"; path: string; content: string }
  | { do: "edit"; path: string; old: string; new: string }
  | { do: "read" | "delete"; path: string }
  | { do: "custom"; name: string; input: unknown }
  | { do: "mcp"; server: string; tool: string; input: unknown }
  | { do: "subagent"; name: string; steps: Step[] };

export type ToolStep = BareToolStep | { do: "ask"; tool: BareToolStep };
export type QuestionStep = { do: "question"; prompt: string; options: string[] };
type SleepStep = { do: "sleep"; ms: number };
/** Steps that can run in parallel. */
export type BranchStep = ToolStep | QuestionStep | SleepStep;

/** Failures that only the scripted model can produce: the scripted agent has no model connection to break. */
const MODEL_FAILURES = ["server_error", "unauthorized", "context_length", "cut", "garbage", "empty"] as const;
type ModelFailureKind = (typeof MODEL_FAILURES)[number];

export function isModelFailure(kind: string): kind is ModelFailureKind {
  return (MODEL_FAILURES as readonly string[]).includes(kind);
}

const STATUSES = ["pending", "in_progress", "completed"] as const;
const PRIORITIES = ["high", "medium", "low"] as const;
const FAILURES = ["overloaded", "rate_limited", "bad_gateway", "terminal", ...MODEL_FAILURES] as const;
const USAGE = [
  "input_tokens",
  "output_tokens",
  "cache_read_tokens",
  "cache_write_tokens",
  "reasoning_tokens",
  "cost_usd",
] as const;

type Parse = (fields: Fields, at: string) => Step;

/** The parser of each kind of step, by the step's key. */
const STEPS: Record<string, Parse> = {
  say: (step) => spoken("say", step),
  think: (step) => spoken("think", step),
  shell: (step) => ({ do: "shell", command: step.text("shell") }),
  write: (step) => {
    const file = step.object("write");
    return { do: "write", path: file.text("path"), content: file.text("content") };
  },
  edit: (step) => {
    const file = step.object("edit");
    return { do: "edit", path: file.text("path"), old: file.text("old"), new: file.text("new") };
  },
  read: (step) => ({ do: "read", path: step.text("read") }),
  delete: (step) => ({ do: "delete", path: step.text("delete") }),
  ask: (step, at) => ({ do: "ask", tool: bareTool(parseStep(step.value("ask"), `${at}.ask`), `${at}.ask`) }),
  question: (step) => {
    const question = step.object("question");
    return { do: "question", prompt: question.text("prompt"), options: question.texts("options") };
  },
  custom: (step) => {
    const tool = step.object("custom");
    return { do: "custom", name: tool.text("name"), input: tool.value("input") ?? {} };
  },
  mcp: (step) => {
    const call = step.object("mcp");
    return {
      do: "mcp",
      server: call.text("server"),
      tool: call.text("tool"),
      input: call.value("input") ?? {},
    };
  },
  plan: (step) => ({
    do: "plan",
    entries: step.list("plan").map((entry, index) => {
      const fields = new Fields(entry, `${step.at}.plan[${index}]`);
      return {
        content: fields.text("content"),
        status: fields.oneOf("status", STATUSES, "pending"),
        priority: fields.oneOf("priority", PRIORITIES, "medium"),
      };
    }),
  }),
  parallel: (step, at) => ({
    do: "parallel",
    steps: step.list("parallel").map((branch, index) => {
      const branchAt = `${at}.parallel[${index}]`;
      return branchStep(parseStep(branch, branchAt), branchAt);
    }),
  }),
  subagent: (step, at) => {
    const agent = step.object("subagent");
    const steps = agent.list("steps");
    return {
      do: "subagent",
      name: agent.text("name", "subagent"),
      steps: steps.map((nested, index) => parseStep(nested, `${at}.subagent.steps[${index}]`)),
    };
  },
  usage: (step) => {
    const usage = step.object("usage");
    const given = USAGE.filter((key) => usage.value(key) !== undefined);
    return {
      do: "usage",
      usage: Object.fromEntries(
        given.map((key) => [key, key === "cost_usd" ? usage.number(key) : usage.count(key)]),
      ),
    };
  },
  fail: (step) => {
    const failure = step.object("fail");
    return { do: "fail", kind: failure.oneOf("kind", FAILURES), times: failure.count("times", 1) };
  },
  refuse: (step) => ({ do: "refuse", reason: step.text("refuse") }),
  compact: () => ({ do: "compact" }),
  sleep: (step) => ({ do: "sleep", ms: step.number("sleep") }),
  flood: (step) => {
    const flood = step.object("flood");
    return { do: "flood", events: flood.count("events"), bytes: flood.count("bytes", 40) };
  },
  image: (step) => {
    const image = step.object("image");
    return { do: "image", data: image.text("data"), mime: image.text("mimeType", "image/png") };
  },
  stderr: (step) => ({ do: "stderr", text: step.text("stderr") }),
  raw: (step) => ({ do: "raw", text: step.text("raw") }),
  rawBytes: (step) => ({ do: "rawBytes", bytes: step.bytes("rawBytes") }),
  exit: (step, at) => {
    const code = step.count("exit");
    if (code > 255) throw new BadScript(`${at}.exit must be an exit status from 0 to 255, not ${code}`);
    return { do: "exit", code };
  },
  signal: (step, at) => {
    const name = step.text("signal");
    if (!Object.hasOwn(constants.signals, name)) {
      throw new BadScript(`${at}.signal must be the name of a signal such as "SIGKILL", not "${name}"`);
    }
    return { do: "signal", signal: name as NodeJS.Signals };
  },
};

export function parseStep(value: unknown, at: string): Step {
  const keys = Object.keys(asRecord(value, at));
  const names = keys.filter((key) => Object.hasOwn(STEPS, key));
  const [name] = names;
  if (name === undefined) {
    const known = Object.keys(STEPS).join(", ");
    throw new BadScript(`${at} is no known step: ${describe(value)}. Known steps: ${known}`);
  }
  if (names.length > 1) throw new BadScript(`${at} is more than one step: ${names.join(" and ")}`);
  return (STEPS[name] as Parse)(new Fields(value, at), at);
}

function spoken(verb: "say" | "think", step: Fields): Step {
  const text = step.text(verb);
  if (step.value("chunks") === undefined) return { do: verb, text };
  return { do: verb, text, chunks: Math.max(1, step.count("chunks")) };
}

const BARE_TOOLS = new Set(["shell", "write", "edit", "read", "delete", "custom", "mcp", "subagent"]);

function bareTool(step: Step, at: string): BareToolStep {
  if (BARE_TOOLS.has(step.do)) return step as BareToolStep;
  throw new BadScript(`${at} must be a tool step (${[...BARE_TOOLS].join(", ")}), not "${step.do}"`);
}

const BRANCHES = new Set([...BARE_TOOLS, "ask", "question", "sleep"]);

function branchStep(step: Step, at: string): BranchStep {
  if (BRANCHES.has(step.do)) return step as BranchStep;
  throw new BadScript(`${at} must be a tool step (${[...BRANCHES].join(", ")}), not "${step.do}"`);
}
