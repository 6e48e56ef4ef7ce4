import { runInNewContext } from "node:vm";
import { type AnyTool, chat, type StreamChunk, toolDefinition } from "@tanstack/ai";
import { expect, it } from "vitest";
import { z } from "zod";
import { sluiceText } from "../../src/tanstack/index.ts";
import { openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { requireClient } from "../support/clients.ts";
import { ofType, readAll, script } from "../support/engine.ts";

const CODE = `
  const sum: number = await external_add({ a: 1, b: 2 });
  console.log("the sum is", sum);
  try { await external_fail({}); } catch { console.warn("it failed"); }
  return { sum };
`;

interface Binding {
  execute(input: unknown): Promise<unknown>;
}

/** An isolate driver for code mode, without isolation. */
const driver = {
  createContext: async ({ bindings }: { bindings: Record<string, Binding> }) => {
    const logs: string[] = [];
    const call = Object.entries(bindings).map(([name, { execute }]) => [name, execute] as const);
    const log =
      (prefix: string) =>
      (...words: unknown[]) =>
        void logs.push(prefix + words.join(" "));
    const globals = { ...Object.fromEntries(call), console: { log: log(""), warn: log("WARN: ") } };
    return {
      execute: async (code: string) => ({
        success: true,
        value: (await runInNewContext(`(async () => {${code}\n})()`, globals)) as unknown,
        logs,
      }),
      dispose: async () => {},
    };
  },
};

it("passes the events of the real code mode on unchanged, between the call and its result (TS-27)", async ({
  skip,
}) => {
  const { client, reason } = requireClient("tanstack-code-mode-0.3");
  if (client === undefined) return skip(reason);
  const { createCodeModeTool } = (await client.load("@tanstack/ai-code-mode")) as {
    createCodeModeTool(options: object): AnyTool;
  };
  const add = toolDefinition({
    name: "add",
    description: "a sum",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
  }).server(({ a, b }) => a + b);
  const fail = toolDefinition({ name: "fail", description: "fails", inputSchema: z.object({}) }).server(
    () => {
      throw new Error("as it should");
    },
  );
  const tool = createCodeModeTool({ driver, tools: [add, fail] });
  const told: { name: string; value: unknown }[] = [];
  const emitted: typeof told = [];
  const { execute } = tool;
  const overheard = {
    ...tool,
    execute: (input: never, context: { emitCustomEvent(name: string, value: object): void }) =>
      execute?.(input, {
        ...context,
        emitCustomEvent: (name: string, value: object) => {
          emitted.push({ name, value: structuredClone(value) });
          context.emitCustomEvent(name, value);
        },
      } as never),
  } as unknown as AnyTool;
  const bench = await openAgUi();
  try {
    const names: string[] = [];
    const stream = chat({
      adapter: sluiceText({ baseUrl: bench.url, agent: "scripted" }),
      messages: [
        {
          role: "user",
          content: script({ custom: { name: "execute_typescript", input: { typescriptCode: CODE } } }),
        },
      ],
      tools: [overheard],
      threadId: "code-mode",
    }) as AsyncIterable<StreamChunk>;
    for await (const chunk of stream) {
      names.push(chunk.type === "CUSTOM" ? chunk.name : chunk.type);
      if (chunk.type === "CUSTOM" && chunk.name.startsWith("code_mode:"))
        told.push({ name: chunk.name, value: chunk.value });
      if (chunk.type === "TOOL_CALL_RESULT") expect(chunk.content).toContain('"result":{"sum":3}');
    }
    const own = names.filter((name) => name.startsWith("code_mode:"));
    expect(own).toEqual([
      "code_mode:execution_started",
      "code_mode:external_call",
      "code_mode:external_result",
      "code_mode:external_call",
      "code_mode:external_error",
      "code_mode:console",
      "code_mode:console",
    ]);
    expect(told).toEqual(emitted);
    const first = names.indexOf(own[0] ?? "");
    expect(names[first - 1]).toBe("TOOL_CALL_END");
    expect(names.slice(first, first + own.length + 1)).toEqual([...own, "TOOL_CALL_RESULT"]);
    const logged = ofType(await readAll(bench.test.log, "code-mode"), "custom").map(({ data }) => data);
    expect(logged).toEqual(emitted);
  } finally {
    await bench.close();
  }
});
