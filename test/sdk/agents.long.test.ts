import { chmodSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { createScriptedModel, type ScriptedModel } from "../../src/model/index.ts";
import { type AgentConfig, extractBrowserUseUrls, isBrowserUseTool } from "../../src/sdk/index.ts";
import { type AgentId, requireAgent } from "../support/agents.ts";
import { script as steps } from "../support/engine.ts";
import { LED_TO_MODEL } from "../support/model.ts";
import { type Heard, hear, openBench, type Place, type SdkBench } from "./bench.ts";

const KEY = "sk-test-0123456789abcdefghij";
const MCP = join(import.meta.dirname, "browser-use-mcp.mjs");
const OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";
const NEW = OLD.replace("five", "5");
const RESULT = '{"heronCount":3}\n';

/** The real CLIs with the scripted model; those that can be interrupted here are. */
const AGENTS: readonly (readonly [AgentId, Place["backend"]])[] = [
  ["claude", "embedded"],
  ["codex", "remote"],
  ["opencode", "embedded"],
  ["gemini", "embedded"],
  ["grok", "embedded"],
];

describe.each(AGENTS)("the real %s, %s", { timeout: 180_000 }, (type, backend) => {
  let bench: SdkBench;
  let model: ScriptedModel;
  beforeEach(async () => {
    model = await createScriptedModel();
    bench = await openBench({ backend, sandbox: "local" });
  });
  afterEach(async () => {
    await bench.close();
    await model.close();
  });

  const toAgent = (): AgentConfig => {
    const isBare = type === "claude" || type === "gemini";
    const providerBaseUrl = isBare ? model.url : `${model.url}/v1`;
    // Without isolation, requests are allowed only by an explicit mode.
    const permissionMode = "bypass" as const;
    return { type, model: LED_TO_MODEL[type].model, apiKey: KEY, providerBaseUrl, permissionMode };
  };

  it("EV-43 EV-57 EV-77: runs, overwrites, browses, follows the schema, and is resumed by its own id", async ({
    skip,
  }) => {
    const { path, reason } = requireAgent(type);
    if (path === undefined) return skip(reason);
    const sluice = bench
      .make()
      .withAgent(toAgent())
      .withFiles({ "kept.txt": OLD })
      .withMcpServers({ "browser-use": { command: process.execPath, args: [MCP] } })
      .withSchema(z.object({ heronCount: z.number() }));
    const heard = hear(sluice);
    const result = await sluice.run({
      prompt: steps(
        { say: "on it" },
        { read: "kept.txt" },
        { write: { path: "kept.txt", content: NEW } },
        { write: { path: "output/result.json", content: RESULT } },
        { mcp: { server: "browser-use", tool: "browser_task", input: { task: "look" } } },
        { say: "done" },
      ),
    });
    expect({ ...result, stdout: "" }).toMatchObject({ exitCode: 0 });
    expect(result.stderr + result.stdout).not.toContain(KEY);
    expect(heard.text()).toContain("on it");
    expect((await sluice.getOutputFiles()).data).toEqual({ heronCount: 3 });
    expectDiffs(heard);
    expectBrowser(heard);
    const asked = JSON.stringify(model.requests.map(({ body }) => body));
    expect(asked).toContain("/home/user/workspace/output/result.json");
    expect(asked).toContain('heronCount\\\\\\"');

    // An engine in this process ends with its last user and ends the agent's process.
    await sluice.close();
    const later = bench.make().withAgent(toAgent()).withSession(result.sandboxId);
    model.reset();
    expect((await later.run({ prompt: steps({ say: "again" }) })).exitCode).toBe(0);
    expect(JSON.stringify(model.requests.map(({ body }) => body))).toContain("on it");
    const events = await bench.log(result.sandboxId);
    expect(JSON.stringify(events)).not.toContain(KEY);
    const [native, ...others] = new Set(events.flatMap((event) => event.native_session_id ?? []));
    expect(others).toEqual([]);
    const starts = events.filter((event) => event.type === "process.started").map(({ data }) => data.resumed);
    expect(starts).toEqual(backend === "embedded" ? [undefined, native] : [undefined]);
    expect((await later.executeCommand("env")).stdout).not.toContain("API_KEY");

    if (type !== "claude" && type !== "codex") return;
    void later.run({ prompt: steps({ sleep: 30_000 }, { say: "never" }), background: true });
    expect(await later.interrupt()).toBe(true);
    expect((await later.run({ prompt: steps({ say: "and again" }) })).exitCode).toBe(0);
  });
});

/** Amp's loop runs on Amp's server, so a stub prints the lines that Amp documents. */
describe("amp, by a stub", () => {
  const { PATH } = process.env;
  let bench: SdkBench;
  beforeEach(async () => {
    bench = await openBench({ backend: "embedded", sandbox: "local" });
    const stub = join(import.meta.dirname, "../harness/amp/stub-amp.mjs");
    chmodSync(stub, 0o755);
    symlinkSync(stub, join(bench.folder, "amp"));
    process.env["PATH"] = `${bench.folder}${delimiter}${PATH}`;
  });
  afterEach(async () => {
    process.env["PATH"] = PATH;
    await bench.close();
  });

  it("runs, and is resumed by its own id", async () => {
    const agent: AgentConfig = { type: "amp", apiKey: KEY, providerBaseUrl: "http://127.0.0.1:9" };
    const sluice = bench.make().withAgent(agent);
    const heard = hear(sluice);
    const result = await sluice.run({ prompt: steps({ say: "on it" }) });
    expect({ ...result, stdout: "" }).toMatchObject({ exitCode: 0 });
    expect(heard.text()).toBe("on it");
    await sluice.close();
    const later = bench.make().withAgent(agent).withSession(result.sandboxId);
    expect((await later.run({ prompt: steps({ say: "again" }) })).exitCode).toBe(0);
    const events = await bench.log(result.sandboxId);
    expect(JSON.stringify(events)).not.toContain(KEY);
    const starts = events.filter((event) => event.type === "process.started").map(({ data }) => data.resumed);
    expect(starts).toEqual([undefined, events.at(-1)?.native_session_id]);
  });
});

/** The announcement of a call may come late; its result always comes. */
function expectDiffs({ content }: Heard): void {
  const diffs = content.flatMap(({ update }) =>
    update.sessionUpdate === "tool_call_update" && update.status === "completed"
      ? (update.content ?? []).filter((part) => part.type === "diff")
      : [],
  );
  expect(diffs.map(({ path, oldText, newText }) => [path.split("/").at(-1), oldText, newText])).toEqual([
    ["kept.txt", OLD, NEW],
    ["result.json", null, RESULT],
  ]);
}

function expectBrowser({ content }: Heard): void {
  const updates = content.map(({ update }) => update);
  const calls = updates.filter((update) => update.sessionUpdate === "tool_call");
  const call = calls.find(({ title }) => isBrowserUseTool(title));
  expect(call).toMatchObject({ title: "browser-use: browser_task", kind: "other" });
  const done = updates.findLast(
    (update) => update.sessionUpdate === "tool_call_update" && update.toolCallId === call?.toolCallId,
  );
  expect(done).toMatchObject({ status: "completed" });
  const text = JSON.stringify(done).replaceAll('\\"', '"');
  expect(extractBrowserUseUrls(text).liveUrl).toBe("https://live.example/1");
}
