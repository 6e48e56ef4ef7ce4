import Anthropic from "@anthropic-ai/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EventOf, Item, SluiceEvent } from "../../../src/contract/index.ts";
import { createScriptedModel, type ScriptedModel } from "../../../src/model/index.ts";
import { requireAgent } from "../../support/agents.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { readFrames } from "../../support/sse.ts";
import { create, ofType, post, readEvents, send } from "./transcript.ts";

const { reason } = requireAgent("claude");
const describeLive = reason === undefined ? describe : describe.skip;
const PLAN = "# The plan\n\n1. Read it.\n2. Write it.";
const STEPS = [{ custom: { name: "ExitPlanMode", input: { plan: PLAN } } }, { say: "Off I go." }];

describeLive(`seed 004, question.* of Claude's plan mode${reason ? ` (skipped: ${reason})` : ""}`, () => {
  let server: TestServer;
  let model: ScriptedModel;
  beforeAll(async () => {
    model = await createScriptedModel();
    server = await startServer({ args: ["--sandbox", "local"] });
  });
  afterAll(async () => {
    await server.close();
    await model.close();
  });

  const spec = () => ({
    agent: "claude",
    model: "claude-sonnet-4-5",
    permissionMode: "plan" as const,
    env: { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "sk-ant-test-0123456789" },
  });
  /** Follows the session until an event passes the test. */
  const until = async (id: string, passes: (event: SluiceEvent) => boolean): Promise<SluiceEvent[]> => {
    const options = { after: 0, until: ({ data }: { data: string }) => passes(JSON.parse(data)) };
    const frames = await readFrames(server, id, options);
    return frames.map(({ data }) => JSON.parse(data) as SluiceEvent);
  };
  const asked = async (id: string): Promise<EventOf<"question.requested">> => {
    await create(server, id, spec());
    await send(server, id, ...STEPS);
    const events = await until(id, ({ type }) => type === "turn.waiting");
    expect(ofType(events, "permission.requested")).toEqual([]);
    const [question] = ofType(events, "question.requested");
    if (!question) throw new Error("nothing was asked");
    return question;
  };
  const ended = async (id: string): Promise<SluiceEvent[]> => {
    await until(id, ({ type }) => type === "turn.ended");
    return readEvents(server, id);
  };
  it("is a synthetic question with the plan, and the question's route approves it", async () => {
    const question = await asked("approved");
    expect(question).toMatchObject({ source: "daemon", synthetic: true, data: { prompt: PLAN } });
    expect(question.data.options).toEqual(["approve", "approve and accept edits", "reject"]);
    const answers = [[question.data.options[0] ?? ""]];
    const replied = await post(server, `approved/questions/${question.data.question_id}/reply`, { answers });
    expect(replied.status).toBe(204);
    const events = await ended("approved");
    expect(ofType(events, "question.resolved")).toMatchObject([
      { source: "daemon", synthetic: true, data: { status: "answered", response: "approve" } },
    ]);
    expect(said(events)).toContain("Off I go.");
    expect(resultOf(events)).toMatchObject({ status: "completed" });
  });

  it("text becomes feedback for Claude, through the AG-UI client's resume", async () => {
    const { data } = await asked("changed");
    const resume = [
      { interruptId: data.question_id, status: "resolved", payload: { answer: "Only read it." } },
    ];
    const answered = await server.fetch("/ag-ui/claude", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
      body: JSON.stringify({
        threadId: "changed",
        runId: "run-2",
        messages: [],
        tools: [],
        context: [],
        resume,
      }),
    });
    const live = await answered.text();
    expect(live).toContain('"type":"RUN_FINISHED"');
    const events = await ended("changed");
    expect(resultOf(events)).toMatchObject({ status: "failed", content: [{ output: "Only read it." }] });
  });

  it("is a custom tool use for the official Anthropic client, which sends its result", async () => {
    const { beta } = new Anthropic({ apiKey: server.token, baseURL: `${server.url}/anthropic` });
    const session = "sesn_handed";
    await asked(session);
    const listed = async (type: string): Promise<{ id: string; [field: string]: unknown }[]> => {
      const events: { id: string; type: string }[] = [];
      for await (const event of beta.sessions.events.list(session)) events.push(event as never);
      return events.filter((event) => event.type === type);
    };
    const [use] = await listed("agent.custom_tool_use");
    expect(use).toMatchObject({ name: "ask_user_question", input: { prompt: PLAN } });
    const content = [{ type: "text" as const, text: "approve and accept edits" }];
    await beta.sessions.events.send(session, {
      events: [{ type: "user.custom_tool_result", custom_tool_use_id: use?.id ?? "", content }],
    });
    const events = await ended(session);
    expect(ofType(events, "question.resolved")[0]?.data).toMatchObject({
      status: "answered",
      response: "approve and accept edits",
    });
    expect(said(events)).toContain("Off I go.");
    expect(await listed("user.custom_tool_result")).toMatchObject([{ custom_tool_use_id: use?.id, content }]);
  });

  it("no question comes up in a session that asks for nothing", async () => {
    await create(server, "bypass", { ...spec(), permissionMode: "bypass", agentMode: "plan" });
    await send(server, "bypass", ...STEPS);
    const events = await ended("bypass");
    expect(ofType(events, "question.requested")).toEqual([]);
    expect(said(events)).toContain("Off I go.");
  });
});

function resultOf(events: readonly SluiceEvent[]): Item | undefined {
  return ofType(events, "item.completed").findLast(({ data }) => data.item.kind === "tool_result")?.data.item;
}

function said(events: readonly SluiceEvent[]): string {
  return JSON.stringify(
    ofType(events, "item.completed").filter(({ data }) => data.item.role === "assistant"),
  );
}
