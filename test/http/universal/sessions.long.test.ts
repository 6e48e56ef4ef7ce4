import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SessionInfo } from "../../../src/contract/index.ts";
import { AgentList, SessionPage } from "../../../src/contract/responses.ts";
import { script, waitFor } from "../../support/engine.ts";
import { type AppBench, codeOf, type EventPage, openApp, problemOf } from "../app-bench.ts";
import { SseReader } from "../sse-reader.ts";

let bench: AppBench;
beforeEach(async () => {
  bench = await openApp();
});
afterEach(() => bench.close());

const create = (id: string, spec: object = { agent: "scripted" }) =>
  bench.call("POST", `/v1/sessions/${id}`, { json: spec });
const send = (id: string, message: string, headers: Record<string, string> = {}) =>
  bench.call("POST", `/v1/sessions/${id}/messages`, { json: { message }, headers });

describe("sessions", () => {
  it("are created once under the client's id", async () => {
    const made = await create("mine");
    expect(made.status).toBe(200);
    expect(await made.json()).toEqual({ healthy: true });
    const again = await create("mine");
    expect([again.status, await codeOf(again)]).toEqual([409, "session_already_exists"]);
  });

  it("have their settings and state", async () => {
    await create("mine", { agent: "scripted", title: "T", permissionMode: "plan" });
    const response = await bench.call("GET", "/v1/sessions/mine");
    const info = SessionInfo.parse(await response.json());
    expect(info).toMatchObject({
      sessionId: "mine",
      title: "T",
      permissionMode: "plan",
      ended: false,
      status: "idle",
    });
    const missing = await bench.call("GET", "/v1/sessions/other");
    expect([missing.status, await codeOf(missing)]).toEqual([404, "session_not_found"]);
  });

  it("are listed newest first, page by page", async () => {
    for (const id of ["a", "b", "c", "d", "e"]) await create(id);
    const seen: string[] = [];
    let next: string | undefined;
    do {
      const response = await bench.call("GET", `/v1/sessions?limit=2${next ? `&cursor=${next}` : ""}`);
      const page = SessionPage.parse(await response.json());
      expect(page.sessions.length).toBeLessThanOrEqual(2);
      seen.push(...page.sessions.map((session) => session.sessionId));
      next = page.next;
    } while (next);
    expect(seen).toEqual(["e", "d", "c", "b", "a"]);
    expect((await bench.call("GET", "/v1/sessions?limit=0")).status).toBe(400);
    expect((await bench.call("GET", "/v1/sessions?cursor=nonsense")).status).toBe(400);
  });

  it.each([
    ["an id with a slash", "a%2Fb", { agent: "scripted" }, 400, "invalid_request", "session id"],
    ["no agent", "x", {}, 400, "invalid_request", "agent"],
    ["an unknown agent", "x", { agent: "nobody" }, 400, "unsupported_agent", "nobody"],
    ["an unknown field", "x", { agent: "scripted", colour: 1 }, 400, "invalid_request", "colour"],
    [
      "a bad mode",
      "x",
      { agent: "scripted", permissionMode: "yolo" },
      400,
      "invalid_request",
      "permissionMode",
    ],
    [
      "a folder that is not there",
      "x",
      { agent: "scripted", directory: "/sluice/none" },
      400,
      "invalid_request",
      "/sluice/none",
    ],
    [
      "a folder by a relative path",
      "x",
      { agent: "scripted", sandbox: "local", directory: "src" },
      400,
      "invalid_request",
      "absolute",
    ],
    ["an ACP agent without its command", "x", { agent: "acp" }, 400, "invalid_request", "command"],
    [
      "an ACP agent that is not there",
      "x",
      { agent: "acp", command: ["/sluice/none"] },
      404,
      "agent_not_installed",
      "/sluice/none",
    ],
    ["a bad server", "x", { agent: "scripted", mcp: { m: { url: 1 } } }, 400, "invalid_request", "mcp.m"],
  ])("refuse %s and say why", async (_, id, spec, status, code, word) => {
    const response = await create(id, spec);
    const problem = await problemOf(response);
    expect([response.status, problem.type]).toEqual([status, `urn:sluice:error:${code}`]);
    expect(problem.detail).toContain(word);
    expect((await bench.test.engine.list({ limit: 10 })).sessions).toEqual([]);
  });

  it("are listed by status and agent, over pages with sessions of others", async () => {
    for (const id of ["a", "b", "c", "d", "e"]) await create(id);
    for (const id of ["b", "d"]) await bench.call("POST", `/v1/sessions/${id}/terminate`);
    const list = async (query: string) => {
      const page = SessionPage.parse(await (await bench.call("GET", `/v1/sessions?${query}`)).json());
      return { ids: page.sessions.map(({ sessionId }) => sessionId), next: page.next };
    };
    const first = await list("status=idle&limit=2");
    expect(first.ids).toEqual(["e", "c"]);
    expect(await list(`status=idle&limit=2&cursor=${first.next}`)).toEqual({ ids: ["a"], next: undefined });
    expect((await list("agent=scripted&status=ended")).ids).toEqual(["d", "b"]);
  });

  it("are deleted with their data, and open streams end with session.deleted", async () => {
    await create("mine");
    await send("mine", script({ say: "x" }));
    const plain = await SseReader.open(`${bench.url}/v1/sessions/mine/events/sse`);
    const all = await SseReader.open(`${bench.url}/v1/sessions/mine/events/sse?extensions=true`);
    await all.until((text) => text.includes('"type":"turn.ended"'));
    expect((await bench.call("DELETE", "/v1/sessions/mine")).status).toBe(204);
    await Promise.all([plain.finished, all.finished]);
    expect(JSON.parse(all.frames.at(-1)?.data ?? "{}")).toMatchObject({ type: "session.deleted" });
    expect(plain.text).not.toContain("session.deleted");
    expect((await bench.call("GET", "/v1/sessions/mine")).status).toBe(404);
    expect((await bench.call("DELETE", "/v1/sessions/mine")).status).toBe(404);
    expect((await create("mine")).status).toBe(200);
  });

  it("can be interrupted and terminated", async () => {
    await create("mine");
    expect((await bench.call("POST", "/v1/sessions/mine/interrupt")).status).toBe(204);
    const sent = await send("mine", script({ sleep: 60_000 }));
    const turn = sent.headers.get("sluice-turn-id");
    await waitFor(bench.test.log, "mine", "turn.started");
    const stopped = await bench.call("POST", "/v1/sessions/mine/interrupt");
    expect([stopped.status, stopped.headers.get("sluice-turn-id")]).toEqual([204, turn]);
    const end = await waitFor(bench.test.log, "mine", "turn.ended");
    expect(end.data).toMatchObject({ turn_id: turn, status: "interrupted" });

    expect((await send("mine", script({ say: "on" }))).status).toBe(204);
    await waitFor(bench.test.log, "mine", "turn.ended", { after: end.sequence });
    const watching = await SseReader.open(`${bench.url}/v1/sessions/mine/events/sse`);
    expect((await bench.call("POST", "/v1/sessions/mine/terminate")).status).toBe(204);
    await watching.finished;
    expect(JSON.parse(watching.frames.at(-1)?.data ?? "{}")).toMatchObject({
      type: "session.ended",
      data: { reason: "terminated" },
    });
    const refused = await send("mine", "more");
    expect([refused.status, await codeOf(refused)]).toEqual([409, "session_ended"]);
  });
});

describe("messages", () => {
  it("are accepted with their turn, once for each idempotency key", async () => {
    await create("mine");
    const first = await send("mine", script({ say: "x" }), { "idempotency-key": "k" });
    const again = await send("mine", script({ say: "x" }), { "idempotency-key": "k" });
    expect([first.status, again.status]).toEqual([204, 204]);
    expect(again.headers.get("sluice-turn-id")).toBe(first.headers.get("sluice-turn-id"));
    const other = await send("mine", "something else", { "idempotency-key": "k" });
    expect([other.status, await codeOf(other)]).toEqual([409, "idempotency_conflict"]);
    await waitFor(bench.test.log, "mine", "turn.ended");
    const page = await events("mine", "types=input.accepted&extensions=1");
    expect(page.events).toHaveLength(1);
  });

  it("carry attachments as files and images", async () => {
    await create("mine");
    const attachments = [{ path: "/workspace/a.txt" }, { path: "b.png", mime: "image/png" }];
    await bench.call("POST", "/v1/sessions/mine/messages", { json: { message: "look", attachments } });
    const accepted = await waitFor(bench.test.log, "mine", "input.accepted");
    expect(accepted.data).toMatchObject({
      via: "universal",
      content: [
        { type: "text", text: "look" },
        { type: "file_ref", path: "/workspace/a.txt", action: "read" },
        { type: "image", path: "b.png", mime: "image/png" },
      ],
    });
    await waitFor(bench.test.log, "mine", "turn.ended");
  });

  it("bring instructions, which stand with the words where the agent has no place for them", async () => {
    await create("mine");
    const json = { message: "hello", instructions: "Be brief." };
    const path = "/v1/sessions/mine/messages";
    expect((await bench.call("POST", path, { json })).status).toBe(204);
    const accepted = await waitFor(bench.test.log, "mine", "input.accepted");
    expect(accepted.data.content).toEqual([
      { type: "text", text: "hello" },
      { type: "text", text: "<system-message>\nBe brief.\n</system-message>" },
    ]);
    const empty = await bench.call("POST", path, { json: { ...json, instructions: "" } });
    expect([empty.status, await codeOf(empty)]).toEqual([400, "invalid_request"]);
  });

  it("stream only their own turn to its end, and again after a resend", async () => {
    await create("mine");
    await send("mine", script({ say: "earlier" }));
    const options = { json: { message: script({ say: "mine" }) }, headers: { "idempotency-key": "k" } };
    const stream = await bench.call("POST", "/v1/sessions/mine/messages/stream", options);
    expect(stream.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const turn = stream.headers.get("sluice-turn-id");
    const text = await stream.text();
    const seen = [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ""));
    expect(seen.length).toBeGreaterThan(3);
    for (const event of seen) expect(event.turn_id).toBe(turn);
    expect(text).toContain("mine");
    expect(text).not.toContain("turn.ended");

    const resent = await bench.call("POST", "/v1/sessions/mine/messages/stream", options);
    expect(await resent.text()).toBe(text);
    const all = await bench.call("POST", "/v1/sessions/mine/messages/stream?extensions=true", options);
    expect((await all.text()).trimEnd().split("\n").at(-1)).toContain('"type":"turn.ended"');
  });

  it("continue when their reader disconnects", async () => {
    await create("mine");
    const going = new AbortController();
    const stream = await fetch(`${bench.url}/v1/sessions/mine/messages/stream`, {
      method: "POST",
      body: JSON.stringify({ message: script({ say: "a b c" }, { sleep: 200 }, { say: "the end" }) }),
      signal: going.signal,
    });
    await stream.body?.getReader().read();
    going.abort();
    const end = await waitFor(bench.test.log, "mine", "turn.ended");
    expect(end.data.status).toBe("completed");
  });
});

describe("asks", () => {
  it("are answered once", async () => {
    await create("mine");
    await send(
      "mine",
      script({ ask: { shell: "echo yes" } }, { question: { prompt: "Which?", options: ["a", "b"] } }),
    );
    const ask = await waitFor(bench.test.log, "mine", "permission.requested");
    const path = `/v1/sessions/mine/permissions/${ask.data.permission_id}/reply`;
    expect((await bench.call("POST", path, { json: { reply: "perhaps" } })).status).toBe(400);
    expect((await bench.call("POST", path, { json: { reply: "once" } })).status).toBe(204);
    const again = await bench.call("POST", path, { json: { reply: "reject" } });
    expect(await problemOf(again)).toMatchObject({
      type: "urn:sluice:error:already_resolved",
      status: 409,
      resolution: "approved",
      by: "universal",
    });
    const unknown = await bench.call("POST", "/v1/sessions/mine/permissions/nope/reply", {
      json: { reply: "once" },
    });
    expect([unknown.status, await codeOf(unknown)]).toEqual([404, "action_not_found"]);

    const question = await waitFor(bench.test.log, "mine", "question.requested");
    const answer = `/v1/sessions/mine/questions/${question.data.question_id}`;
    expect((await bench.call("POST", `${answer}/reply`, { json: { answers: [["b"]] } })).status).toBe(204);
    expect((await bench.call("POST", `${answer}/reject`)).status).toBe(409);
    const resolved = await waitFor(bench.test.log, "mine", "question.resolved");
    expect(resolved.data).toMatchObject({ status: "answered", response: "b" });
    await waitFor(bench.test.log, "mine", "turn.ended");
  });

  it("for a tool of the application get its result, and a question can be rejected", async () => {
    await create("mine");
    await send(
      "mine",
      script({ custom: { name: "weather", input: {} } }, { question: { prompt: "?", options: [] } }),
    );
    const request = await waitFor(bench.test.log, "mine", "tool.requested");
    const path = `/v1/sessions/mine/tools/${request.data.request_id}/reply`;
    expect((await bench.call("POST", path, { json: { output: "sunny" } })).status).toBe(204);
    const question = await waitFor(bench.test.log, "mine", "question.requested");
    const reject = `/v1/sessions/mine/questions/${question.data.question_id}/reject`;
    expect((await bench.call("POST", reject)).status).toBe(204);
    expect((await waitFor(bench.test.log, "mine", "question.resolved")).data.status).toBe("rejected");
    await waitFor(bench.test.log, "mine", "turn.ended");
  });
});

describe("agents", () => {
  it("list installation and capabilities", async () => {
    const response = await bench.call("GET", "/v1/agents");
    const { agents } = AgentList.parse(await response.json());
    const scripted = agents.find((agent) => agent.id === "scripted");
    expect(scripted?.installed).toBe(true);
    expect(Object.values(scripted?.capabilities ?? {})).toContain(true);
  });
});

async function events(id: string, query: string): Promise<EventPage> {
  const response = await bench.call("GET", `/v1/sessions/${id}/events?${query}`);
  return (await response.json()) as EventPage;
}
