import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ args: ["--sandbox", "local"] });
});
afterAll(() => server?.close());

/** A request whose path is sent as it is: `fetch` would resolve its dots. */
function send(
  path: string,
  options: { method?: string; host?: string } = {},
): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(server.url);
  const headers = options.host === undefined ? {} : { host: options.host };
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method: options.method ?? "GET", headers }, (response) => {
      let body = "";
      response.on("data", (chunk: Buffer) => (body += chunk.toString()));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe("the documentation at /docs/", () => {
  it("needs no token, and permits no script", async () => {
    const response = await fetch(`${server.url}/docs/`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(response.headers.get("content-security-policy")).not.toContain("script-src");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(await response.text()).toContain("<h1");
  });

  it("serves each page and the style sheet with its type", async () => {
    const html = await (await fetch(`${server.url}/docs/`)).text();
    const links = [...html.matchAll(/href="([^"#:]+)"/g)].map(([, link = ""]) => link);
    expect(links.length).toBeGreaterThan(30);
    for (const link of new Set(links)) {
      const { status, headers } = await fetch(new URL(link, `${server.url}/docs/`));
      expect(status, link).toBe(200);
      expect(headers.get("content-type"), link).toBe(TYPES[link.split(".").at(-1) ?? ""]);
    }
  });

  it("leads from /docs to /docs/, and from a folder to its index", async () => {
    const response = await fetch(`${server.url}/docs`, { redirect: "manual" });
    expect(response.status).toBe(308);
    expect(response.headers.get("location")).toBe("/docs/");
    expect((await fetch(`${server.url}/docs/agents/`)).status).toBe(200);
  });

  it("answers a known tag with 304", async () => {
    const first = await fetch(`${server.url}/docs/start.html`);
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^"[\w-]{20,}"$/);
    for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await fetch(`${server.url}/docs/start.html`, { headers: { "if-none-match": tag } });
      expect(again.status, tag).toBe(304);
      expect(again.headers.get("etag")).toBe(etag);
    }
    const other = await fetch(`${server.url}/docs/start.html`, { headers: { "if-none-match": '"other"' } });
    expect(other.status).toBe(200);
  });

  it("answers HEAD as GET without a body", async () => {
    const [get, head] = await Promise.all(
      ["GET", "HEAD"].map((method) => fetch(`${server.url}/docs/start.html`, { method })),
    );
    expect(head?.status).toBe(200);
    for (const name of ["content-type", "content-length", "etag", "content-security-policy"])
      expect(head?.headers.get(name), name).toBe(get?.headers.get(name));
    expect(Number(head?.headers.get("content-length"))).toBe((await get?.arrayBuffer())?.byteLength);
    expect(await head?.text()).toBe("");
  });

  it.each([
    "/docs/../package.json",
    "/docs/../../package.json",
    "/docs/%2e%2e/package.json",
    "/docs/..%2f..%2fpackage.json",
    "/docs/..%5c..%5cpackage.json",
    "/docs//etc/passwd",
    "/docs/agents/../../cli/start.cjs",
    "/docs/start.html%00",
    "/docs/__proto__",
    "/docs/constructor",
    "/docs/%",
    "/docs/none.html",
  ])("has nothing at %s", async (path) => {
    const { status, body } = await send(path);
    expect([400, 401, 404]).toContain(status);
    expect(body).not.toMatch(/"dependencies"|root:/);
  });

  it("takes no other method and no foreign host", async () => {
    expect((await send("/docs/", { method: "POST" })).status).toBe(405);
    expect((await send("/docs/", { method: "DELETE" })).status).toBe(405);
    expect((await send("/docs/", { host: "evil.example" })).status).toBe(421);
  });
});
