import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createScriptedModel, type ScriptedModel } from "../../../../src/model/index.ts";
import { type AgentId, requireAgent } from "../../../support/agents.ts";
import { LED_TO_MODEL } from "../../../support/model.ts";
import { startServer, type TestServer } from "../../../support/server.ts";
import { collect } from "../anthropic-bench.ts";
import { history, isEnd, message, ofType, text, watch, wordsOf } from "../session-bench.ts";

const AGENTS: readonly AgentId[] = ["claude", "codex"];
const NATIVE = ["Bash", "Read", "Write", "Edit", "Glob", "Grep", "exec_command", "shell", "shell_command"];

/** G8, K3: a real agent with tools that run in its environment's worker. */
describe.each(AGENTS)("%s in a self-hosted environment", (agentId) => {
  const { reason } = requireAgent(agentId);
  const { model: modelId, env } = LED_TO_MODEL[agentId];
  let model: ScriptedModel;
  let server: TestServer;
  let beta: Anthropic["beta"];
  let workdir = "";

  beforeAll(async () => {
    if (reason !== undefined) return;
    model = await createScriptedModel();
    server = await startServer({ env: env(model.url) });
    beta = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` }).beta;
    workdir = await mkdtemp(join(tmpdir(), "sluice-worker-"));
  });
  afterAll(async () => {
    await server?.close();
    await model?.close();
    if (workdir !== "") await rm(workdir, { recursive: true, force: true });
  });

  const open = async (name: string, toolset: object = {}): Promise<{ id: string; environmentId: string }> => {
    const agent = await beta.agents.create({
      name,
      model: modelId,
      tools: [{ type: "agent_toolset_20260401", ...toolset }],
    });
    const environment = await beta.environments.create({ name, config: { type: "self_hosted" } });
    const { id } = await beta.sessions.create({ agent: agent.id, environment_id: environment.id });
    return { id, environmentId: environment.id };
  };
  const send = (id: string, ...events: object[]) =>
    beta.sessions.events.send(id, { events: events as never });

  it.skipIf(reason !== undefined)(
    "has its tools run by the SDK's worker alone",
    async () => {
      await writeFile(join(workdir, "note.txt"), "a note of the worker's\n");
      const { id, environmentId } = await open("hosted");
      const abort = new AbortController();
      const worker = beta.environments.work.worker({
        environmentId,
        environmentKey: server.token,
        workdir,
        maxIdleMs: 300,
        signal: abort.signal,
      });
      const running = worker.run();
      const file_path = "made.txt";
      const steps = [
        { shell: "echo from the worker > here.txt && cat here.txt" },
        call("read", { file_path: "note.txt" }),
        call("write", { file_path, content: "one" }),
        call("edit", { file_path, old_string: "one", new_string: "two" }),
        { say: "done" },
      ];
      const events = await watch({ beta }, id, () => send(id, message(text(...steps))), isEnd);
      abort.abort();
      await running.catch(() => {});
      expect(wordsOf(events)).toEqual(["done"]);
      const uses = ofType(events, "agent.tool_use");
      expect(uses.map(({ name }) => name)).toEqual(["bash", "read", "write", "edit"]);
      expect(uses[1]?.input).toEqual({ file_path: "note.txt" });
      const results = ofType(events, "user.tool_result");
      expect(results.map(({ tool_use_id }) => tool_use_id)).toEqual(uses.map((use) => use.id));
      expect(JSON.stringify(results)).toContain("a note of the worker's");
      expect(ofType(events, "agent.tool_result")).toEqual([]);
      expect(await readFile(join(workdir, "here.txt"), "utf8")).toBe("from the worker\n");
      expect(await readFile(join(workdir, "made.txt"), "utf8")).toBe("two");
      // The model got the worker's result and was offered no other tools.
      const asked = model.requests.map(({ body }) => JSON.stringify(body) ?? "");
      expect(asked.some((body) => body.includes("a note of the worker's"))).toBe(true);
      const offered = model.requests.flatMap(({ body }) =>
        ((body as { tools?: { name?: string }[] } | undefined)?.tools ?? []).map(({ name }) => name),
      );
      for (const native of NATIVE) expect(offered).not.toContain(native);
    },
    120_000,
  );

  if (agentId === "codex")
    it.skipIf(reason !== undefined)(
      "is refused the patch that it cannot be kept from trying",
      async () => {
        const { id } = await open("patched");
        const steps = [{ write: { path: "native.txt", content: "x" } }, { say: "well" }];
        const events = await watch({ beta }, id, () => send(id, message(text(...steps))), isEnd);
        const [use] = ofType(events, "agent.tool_use");
        expect(use).toMatchObject({ name: "edit", evaluated_permission: "deny" });
        expect(ofType(events, "agent.tool_result")).toMatchObject([{ tool_use_id: use?.id, is_error: true }]);
        expect(events.at(-1)).toMatchObject({ stop_reason: { type: "end_turn" } });
      },
      120_000,
    );

  it.skipIf(reason !== undefined)(
    "asks first where it has to, and keeps the id open for the result",
    async () => {
      const { id } = await open("asked", {
        default_config: { permission_policy: { type: "always_ask" } },
        configs: [{ name: "write", enabled: false }],
      });
      const first = await watch({ beta }, id, () =>
        send(id, message(text({ shell: "echo hi" }, { say: "done" }))),
      );
      const [use] = ofType(first, "agent.tool_use");
      expect(use).toMatchObject({ name: "bash", input: { command: "echo hi" }, evaluated_permission: "ask" });
      expect(first.at(-1)).toMatchObject({ stop_reason: { type: "requires_action", event_ids: [use?.id] } });
      const allow = { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" };
      await send(id, allow);
      const content = [{ type: "text", text: "hi from afar" }];
      const result = { type: "user.tool_result", tool_use_id: use?.id, content };
      const end = await watch({ beta }, id, () => send(id, result), isEnd);
      expect(wordsOf(end)).toEqual(["done"]);
      const all = await history({ beta }, id);
      expect(ofType(all, "agent.tool_use")).toHaveLength(1);
      expect(ofType(all, "user.tool_result")).toHaveLength(1);
      expect(await collect(beta.sessions.events.list(id, { types: ["agent.mcp_tool_use"] }))).toEqual([]);
      const off = { mcp: { server: "sluice", tool: "write", input: { file_path: "a", content: "a" } } };
      const third = await watch({ beta }, id, () => send(id, message(text(off, { say: "well" }))), isEnd);
      expect(ofType(third, "user.tool_result")).toEqual([]);
      expect(ofType(third, "agent.custom_tool_use")).toEqual([]);
    },
    120_000,
  );
});

const call = (tool: string, input: object) => ({ mcp: { server: "sluice", tool, input } });
