import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { scripted } from "../../src/harness/index.ts";
import { createApp, listen } from "../../src/http/index.ts";
import { DIALECTS } from "../../src/http/openapi/table.ts";
import { openEngine } from "../support/engine.ts";
import { type AppBench, codeOf, openApp, problemOf } from "./app-bench.ts";

const TOKEN = "correct-horse";
let bench: AppBench;
beforeAll(async () => {
  bench = await openApp({
    token: TOKEN,
    allowedHosts: ["sluice.example", "192.0.2.7"],
    allowedOrigins: ["https://app.example"],
  });
});
afterAll(() => bench.close());

/** `fetch` sets Host and Origin itself, so these go by hand. */
function ask(
  path: string,
  headers: Record<string, string>,
  method = "GET",
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(bench.url + path, { method, headers, agent: false }, (response) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

const authorization = `Bearer ${TOKEN}`;

describe("the token", () => {
  it.each([
    ["none", {}, 401],
    ["a wrong one", { authorization: "Bearer wrong" }, 401],
    ["a prefix of it", { authorization: `Bearer ${TOKEN.slice(0, -1)}` }, 401],
    ["another scheme", { authorization: `Basic ${TOKEN}` }, 401],
    ["the right one", { authorization }, 200],
    ["the right one, in small letters", { authorization: `bearer ${TOKEN}` }, 200],
  ])("is needed: %s", async (_, headers, status) => {
    const response = await bench.call("GET", "/v1/sessions", { headers: headers as Record<string, string> });
    expect(response.status).toBe(status);
    if (status === 200) return;
    expect(response.headers.get("www-authenticate")).toContain("Bearer");
    expect(await codeOf(response)).toBe("token_invalid");
  });

  it("is not taken from the URL", async () => {
    const response = await bench.call("GET", `/v1/sessions?token=${TOKEN}`);
    expect(response.status).toBe(401);
  });

  it.each(["/healthz", "/v1/health", "/"])("is not needed for %s", async (path) => {
    expect((await bench.call("GET", path)).status).toBe(200);
  });

  it.each(["/metrics", "/openapi.json", "/v1/agents", "/nothing/here", "/v1/health/", "//healthz"])(
    "is needed for %s",
    async (path) => {
      expect((await bench.call("GET", path)).status).toBe(401);
    },
  );

  it("is in no answer and no log line", async () => {
    const response = await bench.call("GET", "/v1/sessions", { headers: { authorization: "Bearer wrong" } });
    expect(await response.text()).not.toContain(TOKEN);
    expect(JSON.stringify(bench.lines)).not.toContain(TOKEN);
  });

  it("cannot be empty", () => {
    expect(() => createApp({ engine: bench.test.engine, token: "", version: "1" })).toThrow("empty token");
  });
});

describe("the Host", () => {
  it.each([
    ["localhost", 200],
    ["localhost:1", 200],
    ["LOCALHOST:7411", 200],
    ["127.0.0.1:9", 200],
    ["[::1]:7411", 200],
    ["sluice.example", 200],
    ["sluice.example:8443", 200],
    ["192.0.2.7:80", 200],
    ["evil.example", 421],
    ["evil.example:7411", 421],
    ["localhost.evil.example", 421],
    ["127.0.0.1.evil.example", 421],
    ["192.0.2.8", 421],
  ])("%s gets %i", async (host, status) => {
    const answer = await ask("/v1/sessions", { host, authorization });
    expect(answer.status).toBe(status);
    if (status === 421) expect(JSON.parse(answer.body).type).toBe("urn:sluice:error:foreign_host");
  });

  it("is checked before the token, also on open paths", async () => {
    expect((await ask("/healthz", { host: "evil.example" })).status).toBe(421);
  });
});

describe("the Origin", () => {
  it.each([
    ["https://app.example", "GET", 200, true],
    ["https://app.example", "POST", 405, true],
    ["http://app.example", "GET", 403, false],
    ["https://evil.example", "GET", 403, false],
    ["https://evil.example", "POST", 403, false],
    ["https://app.example.evil.example", "POST", 403, false],
    ["null", "POST", 403, false],
    ["http://localhost:1", "POST", 403, false],
  ])("%s with %s gets %i", async (origin, method, status, shared) => {
    const answer = await ask("/v1/sessions", { origin, authorization }, method);
    expect(answer.status).toBe(status);
    expect(answer.headers["access-control-allow-origin"]).toBe(shared ? origin : undefined);
  });

  it("of the server itself is allowed without CORS headers", async () => {
    const answer = await ask("/v1/sessions", { origin: bench.url, authorization });
    expect([answer.status, answer.headers["access-control-allow-origin"]]).toEqual([200, undefined]);
  });

  it("that is allowed gets a preflight response without a token, any other does not", async () => {
    const preflight = { "access-control-request-method": "POST" };
    const allowed = await ask("/v1/sessions/x", { origin: "https://app.example", ...preflight }, "OPTIONS");
    expect(allowed.status).toBe(204);
    const headers = String(allowed.headers["access-control-allow-headers"]).split(", ");
    expect(headers).toEqual(expect.arrayContaining(["authorization", "idempotency-key", "x-upload-otp"]));
    expect(String(allowed.headers["access-control-expose-headers"]).split(", ")).toEqual(
      expect.arrayContaining(["sluice-turn-id", "sluice-command-id", "x-run-id", "retry-after"]),
    );
    const foreign = await ask("/v1/sessions/x", { origin: "https://evil.example", ...preflight }, "OPTIONS");
    expect([foreign.status, foreign.headers["access-control-allow-origin"]]).toEqual([403, undefined]);
  });

  it("that is allowed may send and read the headers of every operation", async () => {
    for (const { operations } of DIALECTS)
      for (const operation of Object.values(operations)) {
        const { path, method, headers, requiredHeaders, answer, otherAnswers = [] } = operation;
        const names = Object.keys({ ...headers, ...requiredHeaders }).map((name) => name.toLowerCase());
        const asked = {
          origin: "https://app.example",
          "access-control-request-method": method,
          "access-control-request-headers": ["authorization", "content-type", ...names].join(","),
        };
        const preflight = await ask(path.replaceAll(/\{\w+\}/g, "x"), asked, "OPTIONS");
        const listed = (name: string): string[] => String(preflight.headers[name]).split(/, ?/);
        expect(listed("access-control-allow-methods"), path).toContain(method);
        expect(listed("access-control-allow-headers"), path).toEqual(expect.arrayContaining(names));
        const answers = [answer, ...otherAnswers].flatMap(({ headers: given }) => Object.keys(given ?? {}));
        // A browser follows a redirect by itself.
        const shown = answers.map((name) => name.toLowerCase()).filter((name) => name !== "location");
        expect(listed("access-control-expose-headers"), path).toEqual(expect.arrayContaining(shown));
      }
  });

  it("that is allowed can read streams and problems", async () => {
    await bench.test.engine.create("s", { agent: "scripted" });
    await bench.test.engine.terminate("s");
    const stream = await ask("/v1/sessions/s/events/sse", { origin: "https://app.example", authorization });
    expect(stream.headers).toMatchObject({
      "access-control-allow-origin": "https://app.example",
      "content-type": "text/event-stream; charset=utf-8",
    });
    const problem = await ask("/v1/sessions/none", { origin: "https://app.example", authorization });
    expect([problem.status, problem.headers["access-control-allow-origin"]]).toEqual([
      404,
      "https://app.example",
    ]);
    const plain = await ask("/v1/sessions/s/events/sse", { authorization });
    expect(plain.headers["access-control-allow-origin"]).toBeUndefined();
  });
});

describe("the server", () => {
  it("names the port that is in use, and the remedy", async () => {
    const { port } = new URL(bench.url);
    const second = listen({ app: bench.app, host: "127.0.0.1", port: Number(port) });
    await expect(second).rejects.toThrow(`Port ${port} on 127.0.0.1 is in use. Use --port 0`);
  });

  it("refers to the OpenAPI document in a 404", async () => {
    const response = await bench.call("PATCH", "/v1/nothing", { headers: { authorization } });
    const problem = await problemOf(response);
    expect(problem).toMatchObject({ status: 404, type: "urn:sluice:error:not_found" });
    expect(problem.detail).toContain("/openapi.json");
  });

  it("reports internal errors to its own log alone", async () => {
    const lines: unknown[] = [];
    const test = await openEngine({ harnesses: [{ ...scripted, detect: failing }] });
    const { engine } = test;
    const app = createApp({ engine, token: false, version: "1", logger: (line) => lines.push(line) });
    const response = await app.request("/v1/agents");
    expect([response.status, await codeOf(response.clone())]).toEqual([500, "internal"]);
    expect(await response.text()).not.toContain("secret");
    await test.close();
    expect(JSON.stringify(lines)).toContain("secret path");
  });

  it("counts requests, readers and events", async () => {
    const response = await bench.call("GET", "/metrics", { headers: { authorization } });
    expect(response.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    const text = await response.text();
    for (const line of text.trimEnd().split("\n")) {
      expect(line).toMatch(
        /^# (HELP|TYPE) sluice_\w+ .+$|^sluice_\w+(\{(status="\dxx"|reason="\w+")\})? \d+(\.\d+)?$/,
      );
    }
    expect(Number(/http_requests_total\{status="4xx"\} (\d+)/.exec(text)?.[1])).toBeGreaterThan(10);
    expect(text).toContain("sluice_stream_readers 0\n");
  });
});

function failing(): Promise<never> {
  return Promise.reject(new Error("secret path /srv/x"));
}
