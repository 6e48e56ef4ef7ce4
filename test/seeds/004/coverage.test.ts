import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContentPart, SluiceEvent } from "../../../src/contract/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { create, EVERYTHING, ofType, readEvents, runTurn } from "./transcript.ts";

/** Seed 004's rows with sluice's names and their signs in a session's events. */
const ROWS: readonly [row: string, feature: string, shows: (events: SluiceEvent[]) => boolean][] = [
  ["Text Messages", "textMessages", (events) => hasPart(events, (part) => part.type === "text")],
  ["Tool Calls", "toolCalls", (events) => hasPart(events, (part) => part.type === "tool_call")],
  ["Tool Results", "toolResults", (events) => hasPart(events, (part) => part.type === "tool_result")],
  ["Questions (HITL)", "questions", (events) => ofType(events, "question.resolved").length > 0],
  ["Permissions (HITL)", "permissions", (events) => ofType(events, "permission.resolved").length > 0],
  ["Images", "images", (events) => hasPart(events, (part) => part.type === "image")],
  ["File Attachments", "fileAttachments", (events) => hasPart(events, (part) => part.type === "file_ref")],
  ["Session Lifecycle", "sessionLifecycle", (events) => ofType(events, "session.started").length > 0],
  ["Error Events", "errorEvents", (events) => ofType(events, "error").length > 0],
  ["Reasoning/Thinking", "reasoning", (events) => hasPart(events, (part) => part.type === "reasoning")],
  ["Command Execution", "commandExecution", (events) => hasCall(events, /^shell$/)],
  [
    "File Changes",
    "fileChanges",
    (events) =>
      hasPart(
        events,
        (part) => part.type === "file_ref" && part.action === "patch" && part.diff !== undefined,
      ),
  ],
  ["MCP Tools", "mcpTools", (events) => hasCall(events, /^mcp__/)],
  [
    "Streaming Deltas",
    "streamingDeltas",
    (events) => ofType(events, "item.delta").some((event) => !event.synthetic),
  ],
];

describe("seed 004, Coverage Matrix", () => {
  let server: TestServer;
  let events: SluiceEvent[];
  let capabilities: Record<string, boolean>;
  beforeAll(async () => {
    server = await startServer();
    await create(server, "s");
    await runTurn(server, "s", ...EVERYTHING);
    events = await readEvents(server, "s");
    const { agents } = (await (await server.fetch("/v1/agents")).json()) as {
      agents: { id: string; capabilities: Record<string, boolean> }[];
    };
    capabilities = agents.find((agent) => agent.id === "scripted")?.capabilities ?? {};
  });
  afterAll(() => server.close());

  it.each(ROWS)("%s: %s is said to be covered, and appears in session events", (_, feature, shows) => {
    expect(capabilities[feature]).toBe(true);
    expect(shows(events)).toBe(true);
  });

  it("Variants: said to be covered, and the variant reaches the agent", async () => {
    expect(capabilities["variants"]).toBe(true);
    await create(server, "variant", { model: "m-1", variant: "high" });
    const all = await runTurn(server, "variant", { say: "x" });
    const info = (await (await server.fetch("/v1/sessions/variant")).json()) as Record<string, unknown>;
    expect(info).toMatchObject({ model: "m-1", variant: "high" });
    const raw = await readEvents(server, "variant", "&extensions=true&include_raw=true");
    expect(raw.find((event) => event.type === "session.updated")?.raw).toMatchObject({
      variant: "high",
      model: "m-1",
    });
    expect(all.length).toBeGreaterThan(0);
  });

  it("what sluice adds to the matrix shows itself too", async () => {
    const all = await readEvents(server, "s", "&extensions=true");
    const types = new Set(all.map((event) => event.type));
    const added: [string, boolean][] = [
      ["customTools", types.has("tool.resolved")],
      ["plans", types.has("plan.updated")],
      ["subagents", all.some((event) => event.parent_id !== undefined)],
      ["usage", ofType(all, "model.ended").some((event) => event.data.usage !== undefined)],
      ["compaction", types.has("context.compacted")],
      ["retries", types.has("turn.retrying")],
    ];
    for (const [feature, shown] of added) expect([feature, capabilities[feature]]).toEqual([feature, shown]);
  });
});

function hasPart(events: SluiceEvent[], test: (part: ContentPart) => boolean): boolean {
  return ofType(events, "item.completed").some(
    ({ data }) => data.item.role !== "user" && data.item.content.some(test),
  );
}

function hasCall(events: SluiceEvent[], name: RegExp): boolean {
  return hasPart(events, (part) => part.type === "tool_call" && name.test(part.name));
}
