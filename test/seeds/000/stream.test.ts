import { chat, type StreamChunk, toolDefinition } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { sluiceText } from "../../../src/tanstack/index.ts";
import { type AgUiBench, openAgUi } from "../../http/ag-ui/ag-ui-bench.ts";
import { script } from "../../support/engine.ts";
import { createRepository } from "../../tanstack/repository.ts";
import { collect, namesOf, valuesOf } from "./run.ts";

const CODE_MODE = ["execution_started", "console", "external_call", "external_result", "external_error"].map(
  (name) => `code_mode:${name}`,
);

let bench: AgUiBench;
let repository: Awaited<ReturnType<typeof createRepository>>;
let chunks: StreamChunk[];
/** The client's chunks during the run of the host's tool. */
let during: string[] = [];

beforeAll(async () => {
  bench = await openAgUi();
  repository = await createRepository();
  const lookup = toolDefinition({
    name: "lookup",
    description: "looks it up",
    inputSchema: z.object({ q: z.string() }),
  }).server(async ({ q }, context) => {
    for (const [at, name] of CODE_MODE.entries()) context?.emitCustomEvent(name, { at });
    // The tool returns only after the client got every chunk.
    while (!heard.includes(CODE_MODE.at(-1) ?? "")) await new Promise((resolve) => setTimeout(resolve, 5));
    during = [...heard];
    return { found: q };
  });
  const steps = [
    { think: "let me see" },
    { say: "one two three", chunks: 3 },
    { custom: { name: "lookup", input: { q: "x" } } },
    { write: { path: "new.txt", content: "1" } },
    { sleep: 300 },
    { edit: { path: "a.txt", old: "two", new: "2" } },
    { edit: { path: "b.txt", old: "three", new: "3" } },
    { delete: "new.txt" },
    { say: "done" },
  ];
  const heard: string[] = [];
  const stream = chat({
    adapter: sluiceText({ baseUrl: bench.url, agent: "scripted" }),
    messages: [{ role: "user", content: script(...steps) }],
    tools: [lookup],
    modelOptions: { session: { directory: repository.folder } },
    threadId: "seed",
    runId: "seed-run",
  });
  chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
    heard.push(chunk.type === "CUSTOM" ? chunk.name : chunk.type);
  }
});
afterAll(async () => {
  await bench.close();
  await repository.remove();
});

describe("seed 000, the stream", () => {
  it("the same AG-UI StreamChunks any chat() run produces, plus namespaced CUSTOM events", () => {
    const standard = chunks.filter(({ type }) => type !== "CUSTOM").map(({ type }) => type);
    for (const type of standard)
      expect(type).toMatch(/^(RUN_(STARTED|FINISHED)|(TEXT_MESSAGE|REASONING(_MESSAGE)?|TOOL_CALL)_[A-Z]+)$/);
    for (const chunk of chunks) if (chunk.type === "CUSTOM") expect(chunk.name).toMatch(/^[\w-]+[.:][\w-]+/);
  });

  it("Text: incremental assistant output", () => {
    const deltas = chunks.flatMap((chunk) => (chunk.type === "TEXT_MESSAGE_CONTENT" ? [chunk.delta] : []));
    // The scripted agent repeats its tool's result.
    expect(deltas).toEqual(["one ", "two ", "three", '{"found":"x"}', "done"]);
  });

  it("Tool calls: bridged tools surface as ordinary tool-call chunks the moment the in-sandbox agent invokes them", () => {
    const calls = chunks.flatMap((chunk) => (chunk.type === "TOOL_CALL_START" ? [chunk.toolCallName] : []));
    expect(calls).toEqual(["lookup", "write", "edit", "edit", "delete"]);
    expect(during).toEqual(expect.arrayContaining(["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]));
    expect(during).not.toContain("TOOL_CALL_RESULT");
    const result = chunks.find(({ type }) => type === "TOOL_CALL_RESULT");
    expect(result).toMatchObject({ content: '{"found":"x"}' });
  });

  it("Reasoning: the agent's thinking, where the harness exposes it", () => {
    const thought = chunks.flatMap((chunk) =>
      chunk.type === "REASONING_MESSAGE_CONTENT" ? [chunk.delta] : [],
    );
    expect(thought.join("")).toBe("let me see");
  });

  it("Run lifecycle: run started / finished and related boundaries", () => {
    expect(chunks[0]).toMatchObject({ type: "RUN_STARTED", threadId: "seed", runId: "seed-run" });
    expect(chunks.at(-1)).toMatchObject({ type: "RUN_FINISHED", threadId: "seed", runId: "seed-run" });
    const names = namesOf(chunks);
    for (const what of ["TEXT_MESSAGE", "REASONING", "REASONING_MESSAGE", "TOOL_CALL"]) {
      const count = (end: string) => names.filter((name) => name === `${what}_${end}`).length;
      expect(count("START"), what).toBe(count("END"));
    }
  });
});

describe("seed 000, custom events", () => {
  it("CUSTOM events (chunk.type === 'CUSTOM'), each with a name and a value", () => {
    const custom = chunks.filter((chunk) => chunk.type === "CUSTOM");
    expect(custom.length).toBeGreaterThan(8);
    for (const { name, value } of custom) {
      expect(name).not.toBe("");
      expect(value).toBeDefined();
    }
  });

  it("file.changed: after the run completes, { path, diff }, the whole working-tree git diff, path is always '.'", async () => {
    expect(valuesOf(chunks, "file.changed")).toEqual([{ path: ".", diff: await repository.diff() }]);
    expect(namesOf(chunks).slice(-2)).toEqual(["file.changed", "RUN_FINISHED"]);
  });

  it("sandbox.file: per file create / change / delete while a sandbox is active, { type, path, timestamp }", () => {
    const files = valuesOf(chunks, "sandbox.file") as { type: string; path: string; timestamp: number }[];
    const folder = "/home/user/workspace";
    // A slow machine may see the halves of one write.
    const told = new Set(files.map(({ type, path }) => `${path} ${type}`));
    expect([...told].toSorted()).toEqual([
      `${folder}/a.txt change`,
      `${folder}/b.txt change`,
      `${folder}/new.txt create`,
      `${folder}/new.txt delete`,
    ]);
    for (const { timestamp, ...rest } of files) {
      expect(Number.isSafeInteger(timestamp)).toBe(true);
      expect(Object.keys(rest).sort()).toEqual(["path", "type"]);
    }
  });

  it("no hooks required; or to turn the watcher off", async () => {
    const messages = [{ role: "user" as const, content: script({ write: { path: "f", content: "x" } }) }];
    const adapter = sluiceText({ baseUrl: bench.url, agent: "scripted" });
    const modelOptions = { session: { watch: false } };
    const quiet = await collect(chat({ adapter, messages, modelOptions, threadId: "seed-quiet" }));
    expect(valuesOf(quiet, "sandbox.file")).toEqual([]);
    expect(quiet.at(-1)?.type).toBe("RUN_FINISHED");
  });

  it("a chat() tool that runs through the tool bridge can stream CUSTOM events back mid-execution: code mode's five", () => {
    const values = CODE_MODE.map((name) => valuesOf(chunks, name));
    expect(values).toEqual(CODE_MODE.map((_, at) => [{ at }]));
    expect(during.filter((name) => name.startsWith("code_mode:"))).toEqual(CODE_MODE);
  });
});
