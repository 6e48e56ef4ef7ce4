import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, SessionSpec, SluiceEvent } from "../../src/contract/index.ts";
import { readKey } from "../../src/tools/server.ts";
import { tokenOf } from "../../src/tools/token.ts";
import {
  ofType,
  openEngine,
  processesWith,
  readAll,
  runTurn,
  say,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";
import { factAgent } from "./fact-agent.ts";

const WEATHER = {
  name: "weather",
  description: "The weather of a city",
  inputSchema: { type: "object", properties: { city: { type: "string" } } },
};

const SPEC: SessionSpec = { agent: "scripted", tools: { custom: [WEATHER] } };

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

function call(city: string): unknown {
  return { mcp: { server: "sluice", tool: "weather", input: { city } } };
}

describe.each(["local", "bwrap"])("an application's tools, in %s", (sandbox) => {
  let test: TestEngine;
  beforeAll(async () => {
    test = await openEngine({ defaultSandbox: sandbox });
  });
  afterAll(() => test.close());

  it("are called through MCP, and the answer comes back with the tool's own events before it", async () => {
    await test.engine.create("s", SPEC);
    const { after } = await say(test.engine, "s", script(call("Bern"), { say: "done" }));
    const requested = await waitFor(test.log, "s", "tool.requested", { after });
    expect(requested.data).toMatchObject({ name: "weather", input: { city: "Bern" } });
    const waiting = await waitFor(test.log, "s", "turn.waiting", { after });
    expect(waiting.data.actions).toEqual([{ kind: "tool", id: requested.data.request_id }]);
    expect((await test.engine.info("s")).pendingActions).toMatchObject([
      { kind: "tool", prompt: "weather", input: { city: "Bern" } },
    ]);
    const events = [
      { name: "code_mode:console", value: { line: 1 } },
      { name: "x", value: null },
    ];
    await test.engine.resolveTool("s", requested.data.request_id, { output: "sunny", events, by: "me" });
    await waitFor(test.log, "s", "turn.ended", { after });

    const all = await readAll(test.log, "s");
    const item = callItems(all)[0];
    expect(item?.data.item.content[0]).toMatchObject({ name: "mcp__sluice__weather" });
    expect(requested.data.call_id).toBe(callIdOf(item));
    expect(ofType(all, "custom").map((event) => event.data)).toEqual(events);
    expect(resultOf(all, requested.data.call_id ?? "")?.output).toBe("sunny");
    const order = all
      .filter((event) => /^(tool|custom|turn)/.test(event.type) || isToolItem(event))
      .map((event) => event.type);
    expect(order).toEqual([
      "turn.started",
      "item.completed",
      "tool.requested",
      "turn.waiting",
      "custom",
      "custom",
      "tool.resolved",
      "turn.resumed",
      "item.completed",
      "turn.ended",
    ]);
    await expect(
      test.engine.resolveTool("s", requested.data.request_id, { output: "rain" }),
    ).rejects.toMatchObject({ code: "already_resolved" });
  });

  it("keep several calls of one tool apart", async () => {
    const { after } = await say(test.engine, "s", script({ parallel: ["a", "b", "c"].map(call) }));
    const waiting = await waitFor(test.log, "s", "turn.waiting", {
      after,
      where: (event) => event.data.actions.length === 3,
    });
    const requests = ofType(await readAll(test.log, "s"), "tool.requested").filter(
      (event) => event.sequence > after,
    );
    expect(waiting.data.actions.map(({ id }) => id)).toEqual(requests.map((event) => event.data.request_id));
    for (const { data } of requests.toReversed()) {
      const { city } = data.input as { city: string };
      await test.engine.resolveTool("s", data.request_id, { output: `in ${city}`, isError: city === "b" });
    }
    await waitFor(test.log, "s", "turn.ended", { after });
    const all = (await readAll(test.log, "s")).filter((event) => event.sequence > after);
    for (const { data } of requests) {
      const { city } = data.input as { city: string };
      expect(argumentsOf(all, data.call_id ?? "")).toEqual({ city });
      expect(resultOf(all, data.call_id ?? "")).toMatchObject({ output: `in ${city}` });
    }
  });

  it("may answer with an image, from a file of the sandbox too", async () => {
    const files = await test.engine.files("s");
    await files.write("sun.png", Buffer.from(PNG, "base64"));
    const { after } = await say(test.engine, "s", script(call("Bern")));
    const { data } = await waitFor(test.log, "s", "tool.requested", { after });
    const content = [
      { type: "text", text: "look:" },
      { type: "image", path: "sun.png" },
    ] as const;
    await test.engine.submit("s", [{ kind: "tool", id: data.request_id, content }], { via: "test" });
    await waitFor(test.log, "s", "turn.ended", { after });
    const result = resultOf(await readAll(test.log, "s"), data.call_id ?? "");
    expect(result?.output).toBe(
      `look:\n${JSON.stringify({ type: "image", data: PNG, mimeType: "image/png" })}`,
    );
  });

  it("are withdrawn by an interrupt, and the session goes on", async () => {
    const { after } = await say(test.engine, "s", script(call("Bern"), { say: "never" }));
    const { data } = await waitFor(test.log, "s", "tool.requested", { after });
    await waitFor(test.log, "s", "turn.waiting", { after });
    await test.engine.interrupt("s");
    const all = (await readAll(test.log, "s")).filter((event) => event.sequence > after);
    expect(ofType(all, "tool.resolved").map((event) => event.data)).toMatchObject([
      { request_id: data.request_id, status: "cancelled" },
    ]);
    expect(ofType(all, "turn.ended")[0]?.data.status).toBe("interrupted");
    expect((await runTurn(test, "s", script({ say: "on" }))).data.status).toBe("completed");
  });

  it("fail with a message for the agent where there is no such tool", async () => {
    const before = (await test.engine.info("s")).eventCount;
    await runTurn(test, "s", script({ mcp: { server: "sluice", tool: "nope", input: {} } }));
    const all = (await readAll(test.log, "s")).filter((event) => event.sequence > before);
    expect(ofType(all, "tool.requested")).toEqual([]);
    expect(resultOf(all, callIdOf(callItems(all)[0]) ?? "")?.output).toBe('There is no tool "nope".');
  });

  it("wait through a restart of the engine; an answer in between is not lost", async () => {
    const { after } = await say(test.engine, "s", script(call("Bern"), call("Basel")));
    const first = await waitFor(test.log, "s", "tool.requested", { after });
    await test.restart();
    await test.engine.resolveTool("s", first.data.request_id, { output: "sunny" });
    const second = await waitFor(test.log, "s", "tool.requested", { after: first.sequence });
    await test.engine.resolveTool("s", second.data.request_id, { output: "rain" });
    await test.restart();
    await waitFor(test.log, "s", "turn.ended", { after });
    const all = (await readAll(test.log, "s")).filter((event) => event.sequence > after);
    expect(ofType(all, "tool.requested")).toHaveLength(2);
    expect(resultOf(all, first.data.call_id ?? "")?.output).toBe("sunny");
    expect(resultOf(all, second.data.call_id ?? "")?.output).toBe("rain");
  });

  it("leave the token in no file, no list of processes and no event", async () => {
    await test.engine.create("quiet", SPEC);
    const { after } = await say(
      test.engine,
      "quiet",
      script(call("Bern"), { write: { path: "a", content: "b" } }),
    );
    const { data } = await waitFor(test.log, "quiet", "tool.requested", { after });
    const { createdAt } = await test.engine.info("quiet");
    const run = { session: "quiet", createdAt, process: 1 };
    const token = tokenOf(await readKey(join(test.folder, "tools")), run);
    // The agent and its tool server have it, so the search below means something.
    expect((await processesWith(`SLUICE_TOOLS_TOKEN=${token}`)).length).toBeGreaterThan(0);
    expect(await commandLinesWith(token)).toEqual([]);
    expect(await filesWith(test.folder, token)).toEqual([]);
    await test.engine.resolveTool("quiet", data.request_id, { output: "sunny" });
    await waitFor(test.log, "quiet", "turn.ended", { after });
    expect(await filesWith(test.folder, token)).toEqual([]);
    expect(JSON.stringify(await readAll(test.log, "quiet", true))).not.toContain(token);
  });

  it("keep it out of events and diffs that the agent prints or writes it into", async () => {
    await test.engine.create("leaky", SPEC);
    await runTurn(
      test,
      "leaky",
      script(
        { shell: "git init -q . && echo token: $SLUICE_TOOLS_TOKEN | tee leak.txt" },
        { shell: "echo again: $SLUICE_TOOLS_TOKEN >&2" },
      ),
    );
    const all = await readAll(test.log, "leaky", true);
    const [diffed] = ofType(all, "workspace.diffed");
    expect(diffed?.data.diff).toContain("+token: [redacted:SLUICE_TOOLS_TOKEN]");
    const { createdAt } = await test.engine.info("leaky");
    const run = { session: "leaky", createdAt, process: 1 };
    expect(JSON.stringify(all)).not.toContain(tokenOf(await readKey(join(test.folder, "tools")), run));
  });
});

it("a token on stderr of a process that died is in no event", async () => {
  const agent = factAgent("echo ready; read hello; read prompt; echo token: $SLUICE_TOOLS_TOKEN >&2; exit 3");
  const test = await openEngine({ defaultSandbox: "local", harnesses: [agent] });
  await test.engine.create("f", { ...SPEC, agent: "facts" });
  await runTurn(test, "f", "go");
  const { data } = await waitFor(test.log, "f", "process.ended");
  expect(data.stderr?.head ?? data.stderr?.tail).toBe("token: [redacted:SLUICE_TOOLS_TOKEN]");
  expect(JSON.stringify(await readAll(test.log, "f"))).not.toMatch(/token: [0-9a-f]/);
  await test.close();
});

describe("tools that no agent could call", () => {
  it("are refused at the creation of the session", async () => {
    const test = await openEngine({ defaultSandbox: "local" });
    await expect(test.engine.create("n", { ...SPEC, network: "none" })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await expect(
      test.engine.create("m", { ...SPEC, mcp: { sluice: { command: "true" } } }),
    ).rejects.toMatchObject({ code: "invalid_request" });
    await test.engine.create("ok", { agent: "scripted", mcp: { sluice: { command: "true" } } });
    await expect(test.engine.update("ok", { settings: { tools: SPEC.tools } })).rejects.toMatchObject({
      code: "invalid_request",
    });
    await test.close();
  });
});

function isToolItem(event: SluiceEvent): boolean {
  return event.type === "item.completed" && event.data.item.kind.startsWith("tool_");
}

function callItems(events: readonly SluiceEvent[]): EventOf<"item.completed">[] {
  return ofType(events, "item.completed").filter((event) => event.data.item.kind === "tool_call");
}

function callIdOf(event: EventOf<"item.completed"> | undefined): string | undefined {
  const [part] = event?.data.item.content ?? [];
  return part?.type === "tool_call" ? part.call_id : undefined;
}

function argumentsOf(events: readonly SluiceEvent[], callId: string): unknown {
  const [part] = callItems(events).find((event) => callIdOf(event) === callId)?.data.item.content ?? [];
  return part?.type === "tool_call" ? JSON.parse(part.arguments) : undefined;
}

function resultOf(events: readonly SluiceEvent[], callId: string): { output: string } | undefined {
  const parts = ofType(events, "item.completed").flatMap((event) => event.data.item.content);
  return parts.find((part) => part.type === "tool_result" && part.call_id === callId) as
    | { output: string }
    | undefined;
}

async function commandLinesWith(text: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(
    pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")),
  );
  return lines.filter((line) => line.includes(text));
}

async function filesWith(folder: string, text: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const found: string[] = [];
  for (const name of names) {
    const content = await readFile(name).catch(() => Buffer.alloc(0));
    if (content.includes(text)) found.push(name);
  }
  return found;
}
