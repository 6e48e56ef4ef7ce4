import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { chat } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { sluiceText } from "../../src/tanstack/index.ts";
import { sluiceSandbox } from "../../src/tanstack/sandbox/index.ts";
import { type AgUiBench, openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { createRepository } from "./repository.ts";
import { type Chunk, collect, nameOf, requireStack } from "./stack.ts";

const RECORDINGS = resolve(import.meta.dirname, "../harness/recordings/claude");

const BEGIN = "RUN_STARTED claude-code.session-id";
const TEXT = "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END";
const THOUGHT =
  "REASONING_START REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_END";
const CALL = "TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END";
const RESULT = "TOOL_CALL_RESULT";

interface Difference {
  readonly name: string;
  readonly why: string;
  readonly theirs: string;
  readonly ours: string;
}

/** Recordings with the same chunks in both, except for the position of `file.changed`. */
const SAME = ["text", "thinking", "write", "edit", "parallel_tools", "mcp_tool"];

/** Recordings with other chunks in TanStack's stack, each with the defect there. */
const DIFFERENT: readonly Difference[] = [
  {
    name: "todo",
    why: "a plan is told by nothing but the call that made it",
    theirs: `${BEGIN} ${TEXT} ${CALL} ${RESULT} ${TEXT} RUN_FINISHED file.changed`,
    ours: `${BEGIN} ${TEXT} ${CALL} ${RESULT} ACTIVITY_SNAPSHOT ${TEXT} file.changed RUN_FINISHED`,
  },
  {
    name: "retry_529",
    why: "the CLI's own retries are silence",
    theirs: `${BEGIN} ${TEXT} RUN_FINISHED file.changed`,
    ours: `${BEGIN} model.retrying ${TEXT} file.changed RUN_FINISHED`,
  },
  {
    name: "subagent",
    why: "what a sub-agent says is left out, and what comes after it goes on behind a first RUN_FINISHED",
    theirs: `${BEGIN} ${TEXT} ${CALL} ${RESULT} ${TEXT} RUN_FINISHED claude-code.session-id ${TEXT} RUN_FINISHED file.changed`,
    ours: `${BEGIN} ${TEXT} ${CALL} SUBAGENT_STARTED ${THOUGHT} ${TEXT} ${TEXT} ${CALL} ${RESULT} ${TEXT} SUBAGENT_FINISHED ${RESULT} ${TEXT} file.changed RUN_FINISHED`,
  },
  {
    name: "error_401",
    why: "a failure is told as an answer and a RUN_FINISHED, with a RUN_ERROR behind it, and no diff",
    theirs: `${BEGIN} ${TEXT} RUN_FINISHED RUN_ERROR`,
    ours: `${BEGIN} model.retrying file.changed RUN_ERROR`,
  },
  {
    name: "malformed_stream_cut",
    why: "every try of a message that breaks off is an answer of its own, and the run has two ends",
    theirs: `${BEGIN} ${TEXT} ${TEXT} ${TEXT} ${TEXT} RUN_FINISHED RUN_ERROR`,
    ours: `${BEGIN} TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT model.retrying TEXT_MESSAGE_END file.changed RUN_ERROR`,
  },
];

let missing: string | undefined;
const ends: (() => Promise<unknown>)[] = [];
let theirs: (prompt: string) => Promise<Chunk[]>;
let ours: (prompt: string, threadId: string) => Promise<Chunk[]>;

beforeAll(async () => {
  const required = await requireStack();
  if ("reason" in required) return void (missing = required.reason);
  const loaded = required.stack;
  vi.stubEnv("PATH", `${resolve(import.meta.dirname, "replay")}${delimiter}${process.env["PATH"]}`);
  const repository = await createRepository();
  const dataDir = await mkdtemp(join(tmpdir(), "sluice-reference-"));
  const bench: AgUiBench = await openAgUi();
  ends.push(bench.close, repository.remove, () => rm(dataDir, { recursive: true, force: true }));
  const sandbox = loaded.defineSandbox({
    id: "reference",
    provider: sluiceSandbox({ provider: "bwrap", dataDir, programs: ["claude"] }),
    workspace: loaded.defineWorkspace({ source: { type: "local", path: repository.folder } }),
  });
  const thread = { threadId: "reference", runId: "run" };
  ends.unshift(() => sandbox.destroy(thread));
  theirs = (content) =>
    collect(
      loaded.chat({
        adapter: loaded.claudeCodeText("claude-sonnet-4-5"),
        messages: [{ role: "user", content }],
        threadId: thread.threadId,
        middleware: [loaded.withSandbox(sandbox)],
        debug: false,
      }),
    );
  ours = (content, threadId) =>
    collect(
      chat({
        adapter: sluiceText({ baseUrl: bench.url, agent: "claude" }),
        messages: [{ role: "user", content }],
        threadId,
        modelOptions: {
          session: { sandbox: "local", permissionMode: "bypass", directory: repository.folder },
        },
      }),
    );
});

afterAll(async () => {
  for (const end of ends) await end();
  vi.unstubAllEnvs();
});

describe("the same recording through TanStack's own adapter and through ours (TS-40)", () => {
  it.for(SAME)("%s gives the same chunks, except for a diff before the end", async (name, { skip }) => {
    if (missing !== undefined) return skip(missing);
    const [reference, told] = await both(name);
    const sequence = toSequence(reference);
    expect(sequence).toMatch(/ RUN_FINISHED file\.changed$/);
    expect(toSequence(told)).toBe(sequence.replace(/(RUN_FINISHED) (file\.changed)$/, "$2 $1"));
    expect(toWords(told)).toEqual(toWords(reference));
  });

  it.for(DIFFERENT)("$name differs: there $why", async ({ name, theirs, ours }, { skip }) => {
    if (missing !== undefined) return skip(missing);
    const [reference, told] = await both(name);
    expect(toSequence(reference)).toBe(theirs);
    expect(toSequence(told)).toBe(ours);
  });
});

async function both(name: string): Promise<[Chunk[], Chunk[]]> {
  const prompt = await readFile(join(RECORDINGS, `${name}.jsonl`), "utf8");
  return [await theirs(prompt), await ours(prompt, name)];
}

/** Names in order; deltas count once, and file events are left out. */
function toSequence(chunks: readonly Chunk[]): string {
  const names = chunks.map(nameOf).filter((name) => name !== "sandbox.file");
  return names.filter((name, at) => name !== names[at - 1]).join(" ");
}

/** All texts, calls and results, in order. */
function toWords(chunks: readonly Chunk[]): string[] {
  const words = new Map<string, string>();
  for (const [at, { type, messageId, toolCallId, toolCallName, delta = "", content }] of chunks.entries()) {
    const id = toolCallId ?? messageId;
    if (type === "TOOL_CALL_START") words.set(`${id} name`, toolCallName ?? "");
    if (type === "TOOL_CALL_RESULT") words.set(`${at}`, content ?? "");
    if (/_(?:CONTENT|ARGS)$/.test(type)) words.set(`${id}`, `${words.get(`${id}`) ?? ""}${delta}`);
  }
  return [...words.values()].map((text) => {
    try {
      // TanStack emits a call with the CLI's defaults filled in; we emit the model's own arguments.
      return JSON.stringify({ ...(JSON.parse(text) as object), replace_all: undefined });
    } catch {
      return text;
    }
  });
}
