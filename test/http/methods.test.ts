import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMemoryCatalog } from "../../src/catalog/index.ts";
import { input } from "./ag-ui/ag-ui-bench.ts";
import { type AppBench, openApp, problemOf } from "./app-bench.ts";

let bench: AppBench;
beforeAll(async () => {
  bench = await openApp({ catalog: createMemoryCatalog() });
});
afterAll(() => bench.close());

const PATHS: readonly [dialect: string, path: string, wrong: string, allow: string][] = [
  ["universal", "/v1/sessions", "POST", "GET, HEAD, OPTIONS"],
  ["universal", "/v1/sessions/a", "PUT", "DELETE, GET, HEAD, OPTIONS, PATCH, POST"],
  ["universal", "/v1/sessions/a/interrupt", "GET", "OPTIONS, POST"],
  ["universal", "/v1/sessions/a/interrupt", "HEAD", "OPTIONS, POST"],
  ["universal", "/v1/sessions/sse", "POST", "GET, HEAD, OPTIONS"],
  ["universal", "/v1/sessions/sse", "PATCH", "GET, HEAD, OPTIONS"],
  ["universal", "/v1/sessions/sse", "DELETE", "GET, HEAD, OPTIONS"],
  ["the server's own", "/healthz", "DELETE", "GET, HEAD, OPTIONS"],
  ["anthropic", "/anthropic/v1/sessions", "PUT", "GET, HEAD, OPTIONS, POST"],
  ["anthropic", "/anthropic/v1/sessions/a/archive", "GET", "OPTIONS, POST"],
  ["anthropic", "/anthropic/v1/environments/a/work/poll", "POST", "GET, HEAD, OPTIONS"],
  ["anthropic", "/anthropic/v1/environments/a/work/stats", "POST", "GET, HEAD, OPTIONS"],
  ["ag-ui", "/ag-ui/scripted", "PUT", "DELETE, GET, HEAD, OPTIONS, POST"],
  ["ag-ui", "/ag-ui/scripted/capabilities", "POST", "GET, HEAD, OPTIONS"],
  ["ndjson", "/ndjson/stream", "GET", "OPTIONS, POST"],
  ["ndjson", "/ndjson/conversations/a", "POST", "DELETE, GET, HEAD, OPTIONS"],
];

describe("a wrong method", () => {
  it.each(PATHS)("of a known path, %s %s: %s", async (dialect, path, method, allow) => {
    const response = await bench.call(method, path);
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe(allow);
    if (method === "HEAD") return;
    const body = (await response.json()) as Record<string, unknown>;
    if (dialect === "anthropic")
      expect(body).toMatchObject({ type: "error", error: { type: "invalid_request_error" } });
    else expect(body).toMatchObject({ type: "urn:sluice:error:method_not_allowed", status: 405 });
  });

  it.each(["/v1/nothing", "/v1/sessions/a/b/c", "/anthropic/v1/nothing", "/ag-ui/a/b/c", "/ndjson/nothing"])(
    "of the unknown path %s is no reason for a 405",
    async (path) => {
      for (const method of ["GET", "PUT", "HEAD", "OPTIONS"])
        expect([method, (await bench.call(method, path)).status]).toEqual([method, 404]);
    },
  );

  it.each(PATHS)("OPTIONS says which ones %s %s has", async (_dialect, path, _wrong, allow) => {
    const response = await bench.call("OPTIONS", path);
    expect(response.status).toBe(204);
    expect(response.headers.get("allow")).toBe(allow);
  });

  it("belongs to no session: none is called like a path of the API", async () => {
    const created = bench.test.engine.create("sse", { agent: "scripted" });
    await expect(created).rejects.toMatchObject({ code: "invalid_request" });
  });

  it("tells who creates a session of such an id why there is none", async () => {
    const response = await bench.call("POST", "/v1/sessions/sse", { json: { agent: "scripted" } });
    expect((await problemOf(response)).detail).toContain('"sse" cannot be the id of a session');
  });

  it("deletes a session of an earlier version that is called like a path of the API", async () => {
    const spec = { agent: "scripted", sandbox: "local" };
    await bench.test.log.create({ id: "sse", spec, owner: "earlier", time: Date.now() });
    const list = async () =>
      (await (await bench.call("GET", "/v1/sessions")).json()) as { sessions: unknown[] };
    expect((await list()).sessions).toHaveLength(1);
    expect((await bench.call("PATCH", "/v1/sessions/sse", { json: {} })).status).toBe(405);
    expect((await bench.call("DELETE", "/v1/sessions/sse")).ok).toBe(true);
    expect((await list()).sessions).toEqual([]);
    expect((await bench.call("DELETE", "/v1/sessions/sse")).status).toBe(405);
  });

  it("hinders no thread that is called like a path of the API", async () => {
    const json = input("sse", "hello");
    const response = await bench.call("POST", "/ag-ui/scripted", { json });
    expect(await response.text()).toContain("RUN_FINISHED");
  });

  it("HEAD is GET without the body", async () => {
    const response = await bench.call("HEAD", "/v1/sessions");
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("");
  });

  it("needs the token first", async () => {
    const closed = await openApp({ token: "secret", catalog: createMemoryCatalog() });
    try {
      for (const [, path, method] of PATHS.filter(([, path]) => path !== "/healthz"))
        expect((await closed.call(method, path)).status).toBe(401);
    } finally {
      await closed.close();
    }
  });
});
