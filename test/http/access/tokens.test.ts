import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { script, waitFor } from "../../support/engine.ts";
import { codeOf } from "../app-bench.ts";
import { type AccessBench, OPERATOR, openAccess } from "./access-bench.ts";

let bench: AccessBench;
beforeEach(async () => {
  bench = await openAccess();
  await bench.as(OPERATOR, "POST", "/v1/sessions/s", { json: { agent: "scripted" } });
});
afterEach(() => bench.close());

const status = async (token: string, method: string, path: string, json?: unknown): Promise<number> =>
  (await bench.as(token, method, path, json === undefined ? {} : { json })).status;

describe("a token", () => {
  it("is shown once and stored as its hash", async () => {
    const { id, token } = await bench.token({ scope: "read", name: "a page" });
    expect(token.startsWith(`${id}.`)).toBe(true);
    const list = await (await bench.as(OPERATOR, "GET", "/v1/tokens")).text();
    expect(list).toContain(id);
    expect(list).toContain("a page");
    expect(list).not.toContain(token.split(".")[1]);
    expect(JSON.stringify(bench.lines)).not.toContain(token);
  });

  it("is valid at once, and after its revocation no more", async () => {
    const { id, token } = await bench.token({ scope: "control" });
    expect(await status(token, "GET", "/v1/sessions/s")).toBe(200);
    expect(await status(token, "GET", "/v1/tokens")).toBe(403);
    expect(await status(OPERATOR, "DELETE", `/v1/tokens/${id}`)).toBe(204);
    const refused = await bench.as(token, "GET", "/v1/sessions/s");
    expect([refused.status, await codeOf(refused)]).toEqual([401, "token_invalid"]);
    expect(await status(OPERATOR, "DELETE", `/v1/tokens/${id}`)).toBe(404);
    expect(await (await bench.as(OPERATOR, "GET", "/v1/tokens")).json()).toEqual({ tokens: [] });
  });

  it("of one session reaches no token but itself, whatever its scope", async () => {
    const { token } = await bench.token({ scope: "admin", session: "s" });
    const { id } = await bench.token({ scope: "read" });
    expect(await status(token, "GET", "/v1/sessions/s")).toBe(200);
    expect(await status(token, "GET", "/v1/tokens")).toBe(403);
    expect(await status(token, "POST", "/v1/tokens", { scope: "read" })).toBe(403);
    expect(await status(token, "DELETE", `/v1/tokens/${id}`)).toBe(403);
    expect(await (await bench.as(OPERATOR, "GET", "/v1/tokens")).text()).toContain(id);
  });

  it("expires", async () => {
    const { token } = await bench.token({ scope: "read", expiresIn: 1 });
    expect(await status(token, "GET", "/v1/sessions")).toBe(200);
    await expect.poll(() => status(token, "GET", "/v1/sessions"), { timeout: 10_000 }).toBe(401);
  });

  it.each(["revocation", "expiry"])("ends its open streams soon after its %s", async (how) => {
    const { id, token } = await bench.token({ scope: "read", ...(how === "expiry" && { expiresIn: 2 }) });
    const response = await bench.as(token, "GET", "/v1/sessions/s/events/sse");
    expect(response.status).toBe(200);
    const own = await bench.as(OPERATOR, "GET", "/v1/sessions/s/events/sse");
    if (how === "revocation") await bench.as(OPERATOR, "DELETE", `/v1/tokens/${id}`);
    await response.text().catch(() => "cut");
    expect(await status(token, "GET", "/v1/sessions/s")).toBe(401);
    await own.body?.cancel();
  });

  it.each([
    ["a changed secret", (token: string) => `${token.slice(0, -1)}${token.endsWith("x") ? "y" : "x"}`],
    ["only its id", (token: string) => token.split(".")[0] as string],
    ["another id", (token: string) => token.replace(/^tok_./, "tok_z")],
  ])("is refused as %s", async (_, change) => {
    const { token } = await bench.token({ scope: "admin" });
    expect(await status(change(token), "GET", "/v1/sessions")).toBe(401);
  });

  it("of one session reaches that session alone", async () => {
    await bench.as(OPERATOR, "POST", "/v1/sessions/t", { json: { agent: "scripted" } });
    const { token } = await bench.token({ scope: "control", session: "s" });
    expect(await status(token, "GET", "/v1/sessions/s")).toBe(200);
    expect(await status(token, "PATCH", "/v1/sessions/s", { title: "mine" })).toBe(200);
    expect(await status(token, "GET", "/v1/sessions/t")).toBe(404);
    expect(await status(token, "DELETE", "/v1/sessions/t")).toBe(404);
    expect(await status(token, "POST", "/v1/sessions/u", { agent: "scripted" })).toBe(403);
    expect(await status(token, "GET", "/v1/fs/entries?session=t")).toBe(404);
    expect(await status(token, "GET", "/v1/sessions/t/ports/80/x")).toBe(404);
    const list = (await (await bench.as(token, "GET", "/v1/sessions")).json()) as { sessions: unknown[] };
    expect(list.sessions).toHaveLength(1);
    expect(await status(token, "GET", "/anthropic/v1/sessions/sesn_s")).toBe(200);
    expect(await status(token, "GET", "/anthropic/v1/sessions/sesn_t")).toBe(404);
    expect(await status(token, "GET", "/anthropic/v1/agents")).toBe(403);
    expect(await status(token, "GET", "/ndjson/conversations/s")).toBe(200);
    expect(await status(token, "GET", "/ndjson/conversations/t")).toBe(404);
    expect(await status(token, "GET", "/ag-ui/scripted?threadId=s")).toBe(200);
    expect(await status(token, "GET", "/ag-ui/scripted?threadId=t&offset=-1")).toBe(404);
    expect(await status(token, "POST", "/ndjson/chat", { prompt: "x", conversation: "t" })).toBe(403);
    expect(await status(token, "POST", "/v1/sessions/s/restore", { checkpoint: "ckpt_1" })).toBe(404);
  });

  it("with the scope answer answers, and sends no message", async () => {
    const { token } = await bench.token({ scope: "answer" });
    const message = { message: script({ ask: { shell: "true" } }) };
    expect(await status(token, "POST", "/v1/sessions/s/messages", message)).toBe(403);
    expect(await status(OPERATOR, "POST", "/v1/sessions/s/messages", message)).toBe(204);
    const asked = await waitFor(bench.test.log, "s", "permission.requested");
    const path = `/v1/sessions/s/permissions/${asked.data.permission_id}/reply`;
    expect(await status(token, "POST", path, { reply: "once" })).toBe(204);
    await waitFor(bench.test.log, "s", "turn.ended");
    expect(await status(token, "POST", "/v1/sessions/s/interrupt")).toBe(403);
    const events = { events: [{ type: "user.message", content: [{ type: "text", text: "x" }] }] };
    expect(await status(token, "POST", "/anthropic/v1/sessions/sesn_s/events", events)).toBe(403);
    const run = { threadId: "s", runId: "r", messages: [{ id: "m", role: "user", content: "x" }] };
    const input = { ...run, state: {}, tools: [], context: [], forwardedProps: {} };
    expect(await status(token, "POST", "/ag-ui/scripted", input)).toBe(403);
    expect(await status(token, "POST", "/ag-ui/scripted", { ...input, threadId: "new" })).toBe(403);
  });

  it("makes no token that reaches more than itself", async () => {
    const { token } = await bench.token({ scope: "admin", workspace: "a" });
    const made = await bench.as(token, "POST", "/v1/tokens", { json: { scope: "read" } });
    expect(await made.json()).toMatchObject({ workspace: "a", scope: "read" });
    expect(await status(token, "POST", "/v1/tokens", { scope: "read", workspace: "b" })).toBe(403);
    const foreign = await bench.token({ scope: "read" });
    expect(await status(token, "DELETE", `/v1/tokens/${foreign.id}`)).toBe(404);
    const list = (await (await bench.as(token, "GET", "/v1/tokens")).json()) as { tokens: { id: string }[] };
    expect(list.tokens.map(({ id }) => id)).not.toContain(foreign.id);
    expect(await status(token, "GET", "/metrics")).toBe(403);
    expect(await status(OPERATOR, "POST", "/v1/tokens", { scope: "read", workspace: "default" })).toBe(400);
  });

  it("reads the stream of a dispatch only while it is valid", async () => {
    const { id, token } = await bench.token({ scope: "control" });
    const sent = await bench.as(token, "POST", "/ndjson/chat", { json: { prompt: script({ say: "hi" }) } });
    const { stream } = (await sent.json()) as { stream: string };
    const first = await bench.call("GET", stream);
    expect(await first.text()).toContain("event: done");
    await bench.as(OPERATOR, "DELETE", `/v1/tokens/${id}`);
    expect((await bench.call("GET", stream)).status).toBe(401);
  });
});

it("a reader of files makes no sandbox", async () => {
  const { token } = await bench.token({ scope: "read" });
  const refused = await bench.as(token, "GET", "/v1/fs/entries?session=s");
  expect([refused.status, await codeOf(refused)]).toEqual([404, "file_not_found"]);
  await bench.as(OPERATOR, "PUT", "/v1/fs/file?session=s&path=a.txt", { body: "hello" });
  const read = await bench.as(token, "GET", "/v1/fs/file?session=s&path=a.txt");
  expect([read.status, await read.text()]).toEqual([200, "hello"]);
  expect(await status(token, "PUT", "/v1/fs/file?session=s&path=b.txt")).toBe(403);
});
