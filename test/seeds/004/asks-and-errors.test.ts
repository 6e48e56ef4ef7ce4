import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SluiceEvent } from "../../../src/contract/index.ts";
import { readFrames } from "../../support/sse.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { awaitTurn, create, EVERYTHING, ofType, post, readEvents, runTurn, send } from "./transcript.ts";

let server: TestServer;
let events: SluiceEvent[];
beforeAll(async () => {
  server = await startServer();
  await create(server, "s");
  await runTurn(server, "s", ...EVERYTHING);
  events = await readEvents(server, "s");
});
afterAll(() => server.close());

/** Sends the steps and waits for their request. */
async function asked(id: string, ...steps: unknown[]): Promise<{ turn: string; events: SluiceEvent[] }> {
  await create(server, id);
  const turn = await send(server, id, ...steps);
  const frames = await readFrames(server, id, {
    after: 0,
    until: ({ data }) => data.includes('"turn.waiting"'),
  });
  return { turn, events: frames.map(({ data }) => JSON.parse(data) as SluiceEvent) };
}

describe("seed 004, HITL", () => {
  it("permission.requested: pending, what the agent wants to do, and additional context", () => {
    const [request] = ofType(events, "permission.requested");
    expect(request?.data).toMatchObject({ action: "shell", status: "requested" });
    expect(JSON.stringify(request?.data.metadata)).toContain("echo allowed");
    expect(request?.source).toBe("agent");
  });

  it("permission.resolved: approved or denied, with the id and the action of its request", () => {
    const requested = ofType(events, "permission.requested");
    const resolved = ofType(events, "permission.resolved");
    expect(resolved.map(({ data }) => data.status)).toEqual(["approved", "denied"]);
    for (const [index, { data, sequence }] of resolved.entries()) {
      const request = requested[index];
      expect([data.permission_id, data.action]).toEqual([request?.data.permission_id, request?.data.action]);
      expect(sequence).toBeGreaterThan(request?.sequence ?? 0);
    }
  });

  it("question.requested: the prompt and the available options", () => {
    expect(ofType(events, "question.requested")[0]?.data).toEqual({
      question_id: expect.stringMatching(/./),
      prompt: "Which?",
      options: ["red", "blue"],
      status: "requested",
    });
  });

  it("question.resolved: answered with the selected answer, or rejected without one", () => {
    const [answered, rejected] = ofType(events, "question.resolved").map((event) => event.data);
    expect(answered).toMatchObject({
      prompt: "Which?",
      options: ["red", "blue"],
      status: "answered",
      response: "red",
    });
    expect(rejected).toMatchObject({ prompt: "no-thanks?", status: "rejected" });
    expect(rejected).not.toHaveProperty("response");
  });

  it("question.resolved: several answers are one string that still tells them apart", async () => {
    const { turn } = await asked("several", { question: { prompt: "Which?", options: ["a, b", "c"] } });
    const { pendingActions } = (await (await server.fetch("/v1/sessions/several")).json()) as {
      pendingActions: { id: string }[];
    };
    await post(server, `several/questions/${pendingActions[0]?.id}/reply`, { answers: [["a, b", "c"]] });
    const all = await awaitTurn(server, "several", turn);
    expect(JSON.parse(ofType(all, "question.resolved")[0]?.data.response ?? "")).toEqual(["a, b", "c"]);
  });

  it("requests that an interrupt leaves open are denied and rejected before the turn ends", async () => {
    const steps = [{ parallel: [{ ask: { shell: "true" } }, { question: { prompt: "?", options: [] } }] }];
    const { turn } = await asked("left", ...steps);
    await post(server, "left/interrupt");
    const all = await awaitTurn(server, "left", turn);
    expect(ofType(all, "permission.resolved").map(({ data }) => data.status)).toEqual(["denied"]);
    expect(ofType(all, "question.resolved").map(({ data }) => data.status)).toEqual(["rejected"]);
    for (const event of [...ofType(all, "permission.resolved"), ...ofType(all, "question.resolved")]) {
      expect(event).toMatchObject({ source: "daemon", synthetic: true });
    }
  });

  it("a request does not end the turn: it goes on behind the answer", () => {
    const last = ofType(events, "question.resolved").at(-1)?.sequence ?? Infinity;
    expect(events.some((event) => event.sequence > last && event.source === "agent")).toBe(true);
  });
});

describe("seed 004, errors", () => {
  it("error: a runtime failure, with code and details", () => {
    const errors = ofType(events, "error").map((event) => event.data);
    expect(errors).toContainEqual({
      message: expect.stringContaining("nowhere"),
      code: "mcp_connection_failed",
      details: { server: "nowhere" },
    });
    const overloaded = errors.find((error) => error.code === "overloaded");
    expect(overloaded?.details).toMatchObject({ retrying: true, attempt: 1 });
  });

  it("error: a script that makes no sense says where, and the session goes on", async () => {
    await create(server, "bad");
    const all = await runTurn(server, "bad", { dance: true });
    const [error] = ofType(all, "error");
    expect(error?.data.message).toContain("dance");
    expect(error?.data.message).toContain("Known steps");
    const next = await runTurn(server, "bad", { say: "on we go" });
    expect(ofType(next, "turn.ended").at(-1)?.data.status).toBe("completed");
  });

  it("agent.unparsed: what failed, where, and the hash of the payload; the turn is not ended by it", () => {
    const [unparsed] = ofType(events, "agent.unparsed");
    const hash = createHash("sha256").update("what no decoder knows").digest("hex");
    expect(unparsed?.data).toEqual({
      error: expect.stringMatching(/JSON/),
      location: expect.stringMatching(/^out:\d+$/),
      raw_hash: hash,
    });
    expect(events.at(-1)?.sequence).toBeGreaterThan(unparsed?.sequence ?? Infinity);
  });

  it("a word on stderr is no event of the page, and ends nothing", () => {
    expect(
      JSON.stringify(
        events.filter((event) => event.type !== "item.started" && event.type !== "item.completed"),
      ),
    ).not.toContain("a word on stderr");
    expect(ofType(events, "item.completed").at(-1)?.data.item.content).toEqual([
      { type: "text", text: "done" },
    ]);
  });
});
