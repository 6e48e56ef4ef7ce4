import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ args: ["--sandbox", "local"] });
  await server.client.sessions.create("one", { agent: "scripted" });
  await server.client.sessions.create("two", { agent: "scripted" });
});
afterAll(() => server?.close());

const SAME = { "sec-fetch-site": "same-origin", "sec-fetch-dest": "empty" };

interface Login {
  readonly cookie: string;
  readonly proof: string;
}

/** `fetch` of Node sets some of these headers itself, so the request is made by hand. */
function send(
  path: string,
  {
    method = "GET",
    headers = {},
    json,
  }: { method?: string; headers?: Record<string, string>; json?: unknown } = {},
): Promise<{ status: number; headers: Record<string, string | string[] | undefined>; body: string }> {
  const { hostname, port } = new URL(server.url);
  const sent = json === undefined ? headers : { "content-type": "application/json", ...headers };
  return new Promise((resolve, reject) => {
    const call = request({ hostname, port, path, method, headers: sent }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => (body += chunk.toString()));
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    call.on("error", reject);
    call.end(json === undefined ? undefined : JSON.stringify(json));
  });
}

async function login(access: { scope?: "read"; session?: string } = {}): Promise<Login> {
  const { code } = await server.client.tokens.code(access);
  const answer = await send("/ui/login", { method: "POST", headers: SAME, json: { code } });
  expect(answer.status).toBe(200);
  const [set = ""] = answer.headers["set-cookie"] ?? [];
  expect(set).toMatch(/; HttpOnly; SameSite=Strict; Path=\/;/);
  return { cookie: set.split(";")[0] ?? "", proof: (JSON.parse(answer.body) as { proof: string }).proof };
}

const status = async (path: string, headers: Record<string, string>, method = "GET"): Promise<number> =>
  (await send(path, { headers, method, ...(method === "POST" && { json: { message: "x" } }) })).status;

describe("a browser's login", () => {
  it("1: a code works once", async () => {
    const { code } = await server.client.tokens.code();
    const first = await send("/ui/login", { method: "POST", headers: SAME, json: { code } });
    const second = await send("/ui/login", { method: "POST", headers: SAME, json: { code } });
    expect([first.status, second.status]).toEqual([200, 401]);
    expect(second.body).toContain("sluice open");
  });

  it("26: neither half opens anything alone, and the cookie is no bearer token", async () => {
    const { cookie, proof } = await login();
    const both = { cookie, "sluice-page": proof };
    expect(await status("/v1/sessions", { ...both, ...SAME })).toBe(200);
    expect(await status("/v1/sessions", { cookie, ...SAME })).toBe(401);
    expect(await status("/v1/sessions", { "sluice-page": proof, ...SAME })).toBe(401);
    expect(await status("/v1/sessions", { cookie, "sluice-page": `${proof}x`, ...SAME })).toBe(401);
    expect(await status("/v1/sessions", { authorization: `Bearer ${cookie.split("=")[1]}` })).toBe(401);
  });

  it("26: another origin, another site, a navigation and a rebinding name get nothing", async () => {
    const { cookie, proof } = await login();
    const both = { cookie, "sluice-page": proof };
    expect(await status("/v1/sessions", both)).toBe(401);
    for (const site of ["cross-site", "same-site", "none"])
      expect(
        await status("/v1/sessions", { ...both, "sec-fetch-site": site, "sec-fetch-dest": "empty" }),
      ).toBe(401);
    for (const target of ["document", "iframe", "image", "script"])
      expect(
        await status("/v1/sessions", { ...both, "sec-fetch-site": "same-origin", "sec-fetch-dest": target }),
      ).toBe(401);
    expect(await status("/v1/sessions", { ...both, ...SAME, origin: "http://127.0.0.1:1" })).toBe(403);
    expect(await status("/v1/sessions", { ...both, ...SAME, host: "evil.example" })).toBe(421);
    expect(await status("/ui/", { host: "evil.example" })).toBe(421);
    expect(await status("/v1/sessions", { ...both, origin: server.url })).toBe(200);
  });

  it("26: a login from another page is refused, and a code needs a token", async () => {
    const { code } = await server.client.tokens.code();
    const foreign = { "sec-fetch-site": "cross-site", "sec-fetch-dest": "empty" };
    expect((await send("/ui/login", { method: "POST", headers: foreign, json: { code } })).status).toBe(403);
    expect((await send("/ui/code", { method: "POST", json: {} })).status).toBe(401);
  });

  it("26: logout ends it", async () => {
    const { cookie, proof } = await login();
    const both = { cookie, "sluice-page": proof, ...SAME };
    expect((await send("/ui/logout", { method: "POST", headers: both })).status).toBe(204);
    expect(await status("/v1/sessions", both)).toBe(401);
  });

  it("27: a link of one session only reads that session", async () => {
    const { cookie, proof } = await login({ scope: "read", session: "one" });
    const both = { cookie, "sluice-page": proof, ...SAME };
    expect(await status("/v1/sessions/one", both)).toBe(200);
    expect(await status("/v1/sessions/two", both)).toBe(404);
    expect(await status("/v1/sessions/one/messages", both, "POST")).toBe(403);
    expect((await send("/ui/code", { method: "POST", headers: both, json: { scope: "admin" } })).status).toBe(
      403,
    );
  });

  it("4: a login outlives a killed server", async () => {
    const { cookie, proof } = await login();
    await server.kill();
    await server.start();
    expect(await status("/v1/sessions", { cookie, "sluice-page": proof, ...SAME })).toBe(200);
  });

  it("a login ends with the token that made it", async () => {
    const { id, token } = await server.client.tokens.create({ scope: "control" });
    const headers = { authorization: `Bearer ${token}` };
    const { code } = JSON.parse((await send("/ui/code", { method: "POST", headers, json: {} })).body) as {
      code: string;
    };
    const answer = await send("/ui/login", { method: "POST", headers: SAME, json: { code } });
    const cookie = (answer.headers["set-cookie"]?.[0] ?? "").split(";")[0] ?? "";
    const both = { cookie, "sluice-page": (JSON.parse(answer.body) as { proof: string }).proof, ...SAME };
    expect(await status("/v1/sessions", both)).toBe(200);
    await server.client.tokens.revoke(id);
    expect(await status("/v1/sessions", both)).toBe(401);
  });
});

describe("the page's files", () => {
  it("25: have the strict policy; hashed names last, and are served compressed", async () => {
    const index = await send("/ui/");
    const policy = String(index.headers["content-security-policy"]);
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).toContain("require-trusted-types-for 'script'");
    expect(index.body).not.toMatch(/<style|\sstyle=|<script(?![^>]* src=)|\son\w+=/);
    const [, script = ""] = /src="(\/ui\/assets\/[^"]+\.js)"/.exec(index.body) ?? [];
    const packed = await send(script, { headers: { "accept-encoding": "gzip, br" } });
    expect(packed.headers["content-encoding"]).toBe("br");
    expect(packed.headers["cache-control"]).toContain("immutable");
    expect(packed.headers["content-security-policy"]).toBe(policy);
  });

  it("/ leads to the page, and an unknown file is refused", async () => {
    expect((await send("/")).headers["location"]).toBe("/ui/");
    expect((await send("/ui")).headers["location"]).toBe("/ui/");
    expect((await send("/ui/nothing.js")).status).toBe(404);
    // The server resolves dots before it looks for a route, so these are no files of the page.
    for (const path of ["/ui/assets/../../package.json", "/ui/%2e%2e/package.json"])
      expect((await send(path)).status, path).toBe(401);
  });
});
