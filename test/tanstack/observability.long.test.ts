import { chat } from "@tanstack/ai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMemoryCatalog } from "../../src/catalog/index.ts";
import { createSandboxDebug, type LogLine } from "../../src/sessions/index.ts";
import { sluiceText } from "../../src/tanstack/index.ts";
import { type AppBench, openApp } from "../http/app-bench.ts";
import { script } from "../support/engine.ts";
import { startServer } from "../support/server.ts";
import { collect, nameOf } from "./stack.ts";

const lines: LogLine[] = [];
let bench: AppBench;
beforeAll(async () => {
  const onCommit = createSandboxDebug((line) => lines.push(line));
  bench = await openApp({ catalog: createMemoryCatalog() }, { onCommit });
});
afterAll(() => bench.close());

const prompt = script({ write: { path: "f", content: "a-secret-text" } }, { say: "done" });

/** A logger as `chat()` takes one. */
function createLogger(): { notes: string[]; logger: Record<"debug" | "info" | "warn" | "error", Note> } {
  const notes: string[] = [];
  const note: Note = (message, meta) => void notes.push(`${message} ${JSON.stringify(meta ?? {})}`);
  return { notes, logger: { debug: note, info: note, warn: note, error: note } };
}
type Note = (message: string, meta?: Record<string, unknown>) => void;

const QUIET = {
  request: false,
  provider: false,
  output: false,
  middleware: false,
  tools: false,
  agentLoop: false,
  config: false,
  errors: false,
};

describe("debug logging of a sandbox (TS-30)", () => {
  it("goes to the application's logger with chat()'s debug option, never to its client", async () => {
    const run = async (threadId: string, isOn: boolean) => {
      const { notes, logger } = createLogger();
      const chunks = await collect(
        chat({
          adapter: sluiceText({ baseUrl: bench.url, agent: "scripted" }),
          messages: [{ role: "user", content: prompt }],
          threadId,
          debug: { ...QUIET, sandbox: isOn, logger },
        }),
      );
      return { names: [...new Set(chunks.map(nameOf))].toSorted(), notes, text: JSON.stringify(chunks) };
    };
    const plain = await run("plain", false);
    const noted = await run("noted", true);
    expect(plain.notes).toEqual([]);
    expect(noted.names).toEqual(plain.names);
    expect(noted.text).not.toContain("sandbox.ready");
    const told = (type: string): string[] => noted.notes.filter((line) => line.includes(`sluice: ${type} `));
    for (const type of ["sandbox.boot", "sandbox.ready", "process.started"])
      expect(told(type)).toHaveLength(1);
    // One write may cause two events.
    expect(told("file.changed").length).toBeGreaterThan(0);
    const again = await run("noted", true);
    expect(again.notes.filter((line) => line.includes("sluice: sandbox."))).toEqual([]);
    expect(again.notes.some((line) => line.includes("sluice: file.changed "))).toBe(true);
    expect([...noted.notes, ...again.notes].join()).not.toContain("a-secret-text");
  });

  it("goes to the server's own log with the server's debug option", async () => {
    const own = lines.filter(({ session }) => session === "plain");
    expect(own.map(({ message }) => message)).toEqual(
      expect.arrayContaining(["sandbox.boot", "sandbox.ready", "process.started", "file.changed"]),
    );
    expect(own.every(({ level }) => level === "debug")).toBe(true);
    expect(JSON.stringify(own)).not.toContain("a-secret-text");
  });

  it("is an option of sluice serve", async () => {
    const server = await startServer({ args: ["--debug", "sandbox"] });
    try {
      const { url: baseUrl, token } = server;
      const chunks = await collect(
        chat({
          adapter: sluiceText({ baseUrl, token, agent: "scripted" }),
          messages: [{ role: "user", content: prompt }],
          threadId: "served",
        }),
      );
      expect(chunks.at(-1)?.type).toBe("RUN_FINISHED");
      await expect.poll(() => server.stderr()).toMatch(/"level":"debug","message":"sandbox\.ready"/);
    } finally {
      await server.close();
    }
  });
});
