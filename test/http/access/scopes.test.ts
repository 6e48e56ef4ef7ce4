import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Scope } from "../../../src/contract/index.ts";
import { readAll } from "../../support/engine.ts";
import { type AccessBench, loadDialects, OPERATOR, openAccess } from "./access-bench.ts";

let bench: AccessBench;
const tokens = new Map<Scope, string>();
beforeAll(async () => {
  bench = await openAccess();
  await loadDialects(bench);
  for (const scope of Scope.options) tokens.set(scope, (await bench.token({ scope })).token);
  for (const id of ["s", "t"])
    await bench.as(OPERATOR, "POST", `/v1/sessions/${id}`, { json: { agent: "scripted" } });
});
afterAll(() => bench.close());

/** A request for a route: its parameters are filled in, its body is a guess. */
function toRequest(row: { method: string; path: string }, session: string): [method: string, path: string] {
  const path = row.path
    .replace("/ag-ui/:agent", "/ag-ui/scripted")
    .replace(":port", "3000")
    .replace("/*", "/x")
    .replace(/:id/, session)
    .replaceAll(/:\w+/g, "x");
  const query = new URLSearchParams({
    session,
    path: ".",
    threadId: session,
    conversation: session,
    turn: "turn_1",
    limit: "5",
  });
  return [row.method === "ALL" ? "POST" : row.method, `${path}?${query}`];
}

const BODY = { title: "x", events: [{ type: "user.message", content: [{ type: "text", text: "x" }] }] };

async function ask(token: string, [method, path]: [string, string]): Promise<number> {
  const json = method === "GET" || method === "DELETE" ? {} : { json: BODY };
  const response = await bench.as(token, method, path, json);
  await response.body?.cancel();
  return response.status;
}

/** Also checks what is sent: a message needs more than an answer. */
const MIXED = new Set(["POST /ag-ui/:agent", "POST /anthropic/v1/sessions/:id/events"]);

describe("the table of routes", () => {
  it("has every dialect, and a scope for each route", () => {
    const { rows } = bench.app.scopes;
    for (const prefix of ["/v1/", "/anthropic/v1/", "/ag-ui/", "/ndjson/"])
      expect(rows.filter(({ path }) => path.startsWith(prefix)).length).toBeGreaterThan(2);
    expect(rows.length).toBeGreaterThan(110);
    expect(rows.filter(({ scope }) => ![...Scope.options, "open"].includes(scope))).toEqual([]);
    const open = rows.filter(({ scope }) => scope === "open").map(({ method, path }) => `${method} ${path}`);
    expect(open.sort()).toEqual([
      "GET /",
      "GET /docs",
      "GET /docs/*",
      "GET /healthz",
      "GET /v1/health",
      "POST /anthropic/v1/sessions/:id/callbacks",
      "POST /ndjson/results",
    ]);
  });

  it("decides what each scope may do", async () => {
    const wrong: string[] = [];
    for (const row of bench.app.scopes.rows) {
      if (row.scope === "open") continue;
      for (const scope of Scope.options.slice(0, 3)) {
        const name = `${row.method} ${row.path}`;
        if (scope === "answer" && MIXED.has(name)) continue;
        const isAllowed = Scope.options.indexOf(scope) >= Scope.options.indexOf(row.scope);
        // What is allowed is asked of a session that does not exist, so that nothing is done.
        const status = await ask(tokens.get(scope) as string, toRequest(row, isAllowed ? "nobody" : "s"));
        if ((status === 403) === isAllowed) wrong.push(`${name} (${row.scope}) for ${scope}: ${status}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("lets a read token do nothing but read", async () => {
    const before = await readAll(bench.test.log, "s");
    for (const row of bench.app.scopes.rows) {
      const request = toRequest(row, "s");
      const status = await ask(tokens.get("read") as string, request);
      if (row.scope !== "read" && row.scope !== "open") expect([request, status]).toEqual([request, 403]);
    }
    expect(await readAll(bench.test.log, "s")).toEqual(before);
    const list = await bench.as(OPERATOR, "GET", "/v1/sessions");
    const { sessions } = (await list.json()) as { sessions: { sessionId: string }[] };
    expect(sessions.map(({ sessionId }) => sessionId)).toEqual(["t", "s"]);
  });

  it("closes everything without a token, and with one of another session", async () => {
    const { token } = await bench.token({ scope: "control", session: "t" });
    const before = await readAll(bench.test.log, "s");
    for (const row of bench.app.scopes.rows) {
      if (row.scope === "open") continue;
      const [method, path] = toRequest(row, "s");
      const none = await bench.call(method, path, method === "GET" ? {} : { json: BODY });
      expect([row, none.status]).toEqual([row, 401]);
      const other = await bench.as(token, method, path, method === "GET" ? {} : { json: BODY });
      if (row.path.includes("/sessions/:id") && row.scope !== "admin") {
        expect([row, other.status]).toSatisfy(([, status]) => [400, 403, 404].includes(status as number));
      }
      if (other.ok) expect(await readList(other)).not.toContain('"sessionId":"s"');
    }
    expect(await readAll(bench.test.log, "s")).toEqual(before);
  });

  it("closes a route that is not in it", async () => {
    const own = await openAccess();
    try {
      own.app.get("/unlisted", (c) => c.text("reached"));
      const { token } = await own.token({ scope: "admin" });
      expect((await own.as(token, "GET", "/unlisted")).status).toBe(404);
      expect((await own.as(OPERATOR, "GET", "/unlisted")).status).toBe(200);
    } finally {
      await own.close();
    }
  });
});

/** The body of a response; of the live list, the list as it is now. */
async function readList(response: Response): Promise<string> {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.text();
  const reader = response.body?.getReader();
  let text = "";
  while (!text.includes("event: ready")) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) break;
    text += Buffer.from(value ?? []).toString();
  }
  await reader?.cancel();
  return text;
}
