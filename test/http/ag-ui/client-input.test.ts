import { HttpAgent } from "@ag-ui/client";
import { AgentCapabilitiesSchema } from "@ag-ui/core/schemas";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { expectTellable } from "../../dialects/ag-ui/oracle.ts";
import { ofType, readAll, script } from "../../support/engine.ts";
import { type AgUiBench, input, openAgUi } from "./ag-ui-bench.ts";

let bench: AgUiBench;

beforeAll(async () => {
  bench = await openAgUi();
});

afterAll(async () => {
  await bench.close();
});

describe("a run over HTTP", () => {
  it.each([
    ["1.0.0", HttpAgent, "t-state-1"],
    ["0.0.59", HttpAgent0, "t-state-0"],
  ] as const)(
    "keeps the state of %s as it is here, by snapshots and changes that apply (AG-21)",
    async (_, Agent, threadId) => {
      const warn = vi.spyOn(console, "warn");
      const url = `${bench.url}/ag-ui/scripted`;
      const agent = new (Agent as typeof HttpAgent)({ url, threadId, initialState: { mine: [1] } });
      const types: string[] = [];
      agent.subscribe({ onEvent: ({ event }) => void types.push(event.type) });
      agent.addMessage({
        id: "u1",
        role: "user",
        content: script({ ask: { shell: "echo x" } }, { say: "y" }),
      });
      await agent.runAgent();
      const [interrupt] = agent.pendingInterrupts;
      const pending = [{ id: interrupt?.id, reason: "tool_call", message: interrupt?.message }];
      expect(agent.state).toEqual({ mine: [1], sluice: { status: "waiting", pending } });
      agent.setState({ ...(agent.state as object), mine: [2] });
      const resume = [
        { interruptId: interrupt?.id ?? "", status: "resolved" as const, payload: { approved: false } },
      ];
      await agent.runAgent({ resume });
      expect(agent.state).toEqual({ mine: [2], sluice: { status: "idle", pending: [] } });
      expect(types.filter((type) => type.startsWith("STATE"))).toEqual([
        "STATE_SNAPSHOT",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
      ]);
      expect(warn.mock.calls).toEqual([]);
      warn.mockRestore();
    },
  );

  it("ends with the calls of client tools and takes their results as messages (AG-34)", async () => {
    const tools = [{ name: "weather", description: "", parameters: { type: "object", properties: {} } }];
    const prompt = script({ custom: { name: "weather", input: { at: "Oslo" } } }, { say: "done" });
    const first = await bench.run(input("t-tool", prompt, { tools, protocolVersion: "1.0" }));
    await expectTellable(first, { protocol: "1.0" });
    const call = first.find(({ type }) => type === "TOOL_CALL_START");
    expect(call).toMatchObject({ toolCallName: "weather" });
    expect(first.at(-1)).toMatchObject({
      outcome: { type: "success", pendingToolCallIds: [call?.["toolCallId"]] },
    });
    const messages = [{ id: "tool-1", role: "tool", toolCallId: call?.["toolCallId"], content: "sunny" }];
    const second = await bench.run(input("t-tool", "", { messages, tools }));
    await expectTellable(second);
    expect(second.filter(({ type }) => type === "TEXT_MESSAGE_CONTENT").map(({ delta }) => delta)).toEqual([
      "sunny",
      "done",
    ]);
    const old = await bench.run(input("t-tool-0", prompt, { tools }));
    await expectTellable(old);
    expect(old.at(-1)).toMatchObject({
      outcome: { type: "success" },
      metadata: { tanstack: { finishReason: "tool_calls" } },
    });
  });

  it("lists its capabilities (AG-35)", async () => {
    expect(await readCapabilities(bench)).toMatchObject({
      transport: { resumable: true, httpBinary: true },
      state: { snapshots: true, deltas: true },
      execution: { sandboxed: (await bench.test.engine.defaultSandbox()) !== "local" },
    });
    expect((await bench.call("GET", "/ag-ui/nobody/capabilities")).status).toBe(404);
    const open = await openAgUi({ defaultSandbox: "local" });
    try {
      expect(await readCapabilities(open)).toMatchObject({ execution: { sandboxed: false } });
    } finally {
      await open.close();
    }
  });

  it.each([
    ["1.0.0", HttpAgent, "t-parts-1"],
    ["0.0.59", HttpAgent0, "t-parts-0"],
  ] as const)("takes from %s instructions, context, pictures and documents", async (_, Agent, threadId) => {
    const agent = new (Agent as typeof HttpAgent)({ url: `${bench.url}/ag-ui/scripted`, threadId });
    agent.addMessages([
      { id: "s1", role: "system", content: "Be brief." },
      {
        id: "u1",
        role: "user",
        content: [
          { type: "text", text: script({ shell: "cat /mnt/session/uploads/*" }) },
          { type: "image", source: toSource("a picture", "image/png") },
          { type: "document", source: toSource("a document", "text/plain") },
        ],
      },
    ]);
    const { newMessages } = await agent.runAgent({
      context: [{ description: "the user's name", value: "Ada" }],
    });
    expect(newMessages).toContainEqual(expect.objectContaining({ role: "tool", content: "a document" }));
    const { spec } = (await bench.test.log.find(threadId)) ?? {};
    expect(spec?.instructions).toBe("Be brief.");
    const [accepted] = ofType(await readAll(bench.test.log, threadId), "input.accepted");
    expect(accepted?.data.content).toMatchObject([
      { type: "text" },
      { type: "image", mime: "image/png" },
      { type: "file_ref", action: "read" },
      { type: "text", text: "<context>\nthe user's name: Ada\n</context>" },
    ]);
  });
});

async function readCapabilities({ call }: AgUiBench): Promise<object> {
  return AgentCapabilitiesSchema.parse(await (await call("GET", "/ag-ui/scripted/capabilities")).json());
}

function toSource(value: string, mimeType: string): { type: "data"; value: string; mimeType: string } {
  return { type: "data", value: Buffer.from(value).toString("base64"), mimeType };
}
