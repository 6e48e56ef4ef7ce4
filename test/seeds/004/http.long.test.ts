import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SessionInfo } from "../../../src/contract/index.ts";
import { processesWith, script } from "../../support/engine.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { readFrames } from "../../support/sse.ts";
import { awaitEnd, awaitTurn, create, ofType, post, readEvents, runTurn, send } from "./transcript.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const problemOf = async (response: Response): Promise<Record<string, unknown>> => {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  return (await response.json()) as Record<string, unknown>;
};

describe("the universal dialect over HTTP", () => {
  it("GET /v1/health is 200, for everybody", async () => {
    expect((await fetch(`${server.url}/v1/health`)).status).toBe(200);
  });

  it("GET /v1/agents: id, installed, version, capability flags", async () => {
    const { agents } = (await (await server.fetch("/v1/agents")).json()) as {
      agents: Record<string, unknown>[];
    };
    const scripted = agents.find((agent) => agent["id"] === "scripted");
    expect(scripted).toMatchObject({ installed: true, version: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    for (const flag of Object.values(scripted?.["capabilities"] as object))
      expect(flag).toBeTypeOf("boolean");
  });

  it("POST /v1/sessions/{id} takes all that the daemon's clients send", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-work-"));
    const response = await post(server, "full", {
      agent: "scripted",
      agentMode: "build",
      permissionMode: "acceptEdits",
      model: "m",
      variant: "v",
      directory: folder,
      title: "T",
      mcp: {
        docs: { command: "docs-server", args: ["--stdio"] },
        web: { type: "http", url: "http://127.0.0.1:1/" },
      },
      skills: { sources: [] },
      sandbox: "local",
    });
    expect([response.status, await response.json()]).toEqual([200, { healthy: true }]);
    const info = SessionInfo.parse(await (await server.fetch("/v1/sessions/full")).json());
    expect(info).toMatchObject({
      sessionId: "full",
      agent: "scripted",
      agentMode: "build",
      permissionMode: "acceptEdits",
      model: "m",
      variant: "v",
      directory: folder,
      title: "T",
      ended: false,
      eventCount: 0,
      nativeSessionId: null,
      pendingActions: [],
    });
    await rm(folder, { recursive: true });
  });

  it("GET /v1/sessions/{id}: counts, native id, status, pending actions and usage follow what happens", async () => {
    await create(server, "info");
    await runTurn(server, "info", { usage: { input_tokens: 5, output_tokens: 7 } }, { say: "x" });
    const turn = await send(server, "info", { ask: { shell: "true" } });
    await readFrames(server, "info", { after: 0, until: ({ data }) => data.includes('"turn.waiting"') });
    const info = SessionInfo.parse(await (await server.fetch("/v1/sessions/info")).json());
    const events = await readEvents(server, "info", "&extensions=true");
    expect(info).toMatchObject({ status: "waiting", turnId: turn, eventCount: events.length, queued: 0 });
    expect(info.nativeSessionId).toMatch(/./);
    expect(info.pendingActions).toMatchObject([{ kind: "permission", prompt: "shell", turnId: turn }]);
    expect(info.usage.input_tokens).toBeGreaterThanOrEqual(5);
    expect(info.updatedAt).toBeGreaterThanOrEqual(info.createdAt);
    await awaitTurn(server, "info", turn);
  });

  it("POST …/messages: 204 once durable: kill -9 right behind the answer loses nothing", async () => {
    await create(server, "durable");
    const turn = await send(server, "durable", { say: "kept" });
    await server.kill();
    await server.start();
    const events = await awaitTurn(server, "durable", turn);
    expect(ofType(events, "turn.ended").at(-1)?.data).toMatchObject({ turn_id: turn, status: "completed" });
    expect(JSON.stringify(events)).toContain('"text":"kept"');
  });

  it("POST …/messages: Idempotency-Key makes a resend a no-op, also after a restart", async () => {
    await create(server, "keyed");
    const again = (): Promise<Response> =>
      server.fetch("/v1/sessions/keyed/messages", {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "k" },
        body: JSON.stringify({ message: script({ say: "once" }) }),
      });
    const first = (await again()).headers.get("sluice-turn-id") ?? "";
    await awaitTurn(server, "keyed", first);
    await server.stop();
    await server.start();
    const second = await again();
    expect([second.status, second.headers.get("sluice-turn-id")]).toEqual([204, first]);
    expect(ofType(await readEvents(server, "keyed", "&extensions=true"), "turn.started")).toHaveLength(1);
  });

  it("GET …/events/sse: says something at once, also where there is no event yet", async () => {
    await create(server, "silent");
    const abort = new AbortController();
    const response = await server.fetch("/v1/sessions/silent/events/sse", { signal: abort.signal });
    const first = await response.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toMatch(/^(retry: |: )/);
    abort.abort();
  });

  it("POST …/permissions/{pid}/reply: 204, 404 unknown, 409 already answered, naming the answer", async () => {
    await create(server, "permit");
    const turn = await send(server, "permit", { ask: { shell: "true" } });
    const frames = await readFrames(server, "permit", {
      after: 0,
      until: ({ data }) => data.includes('"permission.requested"'),
    });
    const { permission_id: id } = JSON.parse(frames.at(-1)?.data ?? "{}").data as { permission_id: string };
    expect((await post(server, `permit/permissions/${id}/reply`, { reply: "maybe" })).status).toBe(400);
    expect((await post(server, "permit/permissions/perm_none/reply", { reply: "once" })).status).toBe(404);
    // A question's address does not answer a permission.
    expect((await post(server, `permit/questions/${id}/reply`, { answers: [["x"]] })).status).toBe(404);
    const replies = await Promise.all(
      ["once", "always", "reject", "once"].map((reply) =>
        post(server, `permit/permissions/${id}/reply`, { reply }),
      ),
    );
    const statuses = replies.map((reply) => reply.status);
    expect(statuses.filter((status) => status === 204)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(3);
    const refused = await problemOf(
      await post(server, `permit/permissions/${id}/reply`, { reply: "reject" }),
    );
    expect(refused).toMatchObject({ type: "urn:sluice:error:already_resolved", status: 409 });
    const events = await readEvents(server, "permit");
    const [resolved] = ofType(events, "permission.resolved");
    const { reply } = (resolved?.data.metadata ?? {}) as { reply?: string };
    expect([reply, resolved?.data.status]).toEqual([
      ["once", "always", "reject", "once"][statuses.indexOf(204)],
      reply === "reject" ? "denied" : "approved",
    ]);
    expect(`${refused["resolution"]} ${refused["detail"]}`).toContain(String(resolved?.data.status));
    await post(server, "permit/interrupt");
    await awaitTurn(server, "permit", turn);
  });

  it("/v1/fs: what the agent wrote can be read, what was uploaded can be seen by it, nothing outside", async () => {
    const id = `files-${randomUUID()}`;
    await create(server, id);
    const written = await runTurn(server, id, { write: { path: "made.txt", content: "by the agent" } });
    expect(ofType(written, "turn.ended")[0]?.data).toMatchObject({ status: "completed" });
    const fs = (call: string, path: string, init?: RequestInit): Promise<Response> =>
      server.fetch(`/v1/fs/${call}?session=${id}&path=${encodeURIComponent(path)}`, init);
    expect(await (await fs("file", "made.txt")).text()).toBe("by the agent");
    expect(await (await fs("file", "/workspace/made.txt")).text()).toBe("by the agent");
    expect((await fs("file", "given.txt", { method: "PUT", body: "from outside" })).status).toBe(200);
    const events = await runTurn(
      server,
      id,
      { read: "given.txt" },
      { shell: "ln -s /etc/passwd leak; ln -s / root" },
    );
    expect(JSON.stringify(events)).toContain("from outside");
    for (const path of ["leak", "root/etc/passwd", "../../../etc/passwd", "/proc/self/environ"]) {
      const response = await fs("file", path);
      expect([403, 404], path).toContain(response.status);
      expect(await response.text()).not.toContain("root:");
    }
  });

  it.each([
    ["POST", "/v1/sessions/new", { agent: "nobody" }, 400, "unsupported_agent"],
    ["POST", "/v1/sessions/new", {}, 400, "invalid_request"],
    ["GET", "/v1/sessions/none", undefined, 404, "session_not_found"],
    ["DELETE", "/v1/sessions/none", undefined, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/messages", { message: "x" }, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/messages/stream", { message: "x" }, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/interrupt", undefined, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/terminate", undefined, 404, "session_not_found"],
    ["GET", "/v1/sessions/none/events", undefined, 404, "session_not_found"],
    ["GET", "/v1/sessions/none/events/sse", undefined, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/permissions/p/reply", { reply: "once" }, 404, "session_not_found"],
    ["POST", "/v1/sessions/none/questions/q/reply", { answers: [] }, 404, "session_not_found"],
    ["GET", "/v1/fs/entries?session=none&path=.", undefined, 404, "session_not_found"],
    ["GET", "/v1/nothing", undefined, 404, "not_found"],
  ])("errors are problems that say what to do: %s %s", async (method, path, body, status, code) => {
    const response = await server.fetch(path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const problem = await problemOf(response);
    expect(problem).toMatchObject({ status, type: `urn:sluice:error:${code}`, title: expect.any(String) });
    expect([response.status, String(problem["detail"]).length > 15]).toEqual([status, true]);
  });
});

describe("pinned for sluice", () => {
  it("4: the agent dies in mid-turn: its turn ends, then the session; a message then is a 4xx", async () => {
    await create(server, "dies");
    const turn = await send(server, "dies", { stderr: "last words" }, { say: "half" }, { exit: 7 });
    await awaitEnd(server, "dies");
    const events = await readEvents(server, "dies", "&extensions=true");
    const types = events.map((event) => event.type);
    expect(types.slice(-3)).toEqual(["turn.ended", "process.ended", "session.ended"]);
    expect(ofType(events, "turn.ended")[0]?.data).toMatchObject({
      turn_id: turn,
      stop_reason: "agent_exited",
    });
    expect(events.at(-1)?.data).toMatchObject({
      reason: "error",
      exit_code: 7,
      stderr: { head: "last words" },
    });
    const refused = await post(server, "dies/messages", { message: "more" });
    expect(await problemOf(refused)).toMatchObject({ status: 409, type: "urn:sluice:error:session_ended" });
  });

  it("4: a new message to a session whose agent merely finished starts it again, with its memory", async () => {
    await create(server, "finished");
    await runTurn(server, "finished", { say: "remember me" });
    await server.stop();
    expect(await processesWith(server.data)).toEqual([]);
    await server.start();
    const events = await runTurn(server, "finished", { say: "$history" });
    expect(ofType(events, "process.started").map((event) => event.data.process)).toEqual([1, 2]);
    expect(ofType(events, "item.completed").at(-1)?.data.item.content).toMatchObject([
      { text: expect.stringContaining("remember me") },
    ]);
  });

  it("7: terminate also ends children that called setsid", async () => {
    await create(server, "setsid");
    await send(server, "setsid", {
      shell: "setsid sh -c 'echo $$; exec sleep 1000' & setsid -f sleep 1000; sleep 1000",
    });
    const frames = await readFrames(server, "setsid", {
      after: 0,
      until: ({ data }) => data.includes('"item.delta"'),
    });
    const boot = frames.map(({ data }) => JSON.parse(data)).find((event) => event.type === "sandbox.boot");
    expect((await processesWith(boot.data.sandbox_id)).length).toBeGreaterThan(4);
    expect((await post(server, "setsid/terminate")).status).toBe(204);
    expect(await processesWith(boot.data.sandbox_id)).toEqual([]);
  });
});
