import { request } from "node:http";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../../src/client/index.ts";
import { Host } from "../../../src/contract/responses.ts";
import { runTurn, script } from "../../support/engine.ts";
import { freePort } from "../../support/server.ts";
import { type AppBench, codeOf, openApp, problemOf } from "../app-bench.ts";

const TOKEN = "a-token-that-no-program-may-see";

let bench: AppBench;

let client: SluiceClient;

beforeAll(async () => {
  bench = await openApp({ token: TOKEN });
  client = createClient({ url: bench.url, token: TOKEN });
});

afterAll(() => bench.close());

const call = (method: string, path: string, json?: unknown): Promise<Response> =>
  bench.call(method, `/v1/sessions/${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(json === undefined ? {} : { json }),
  });

describe("the ports of a sandbox", () => {
  let port: number;

  beforeAll(async () => {
    port = await freePort();
    await client.sessions.create("web", { agent: "scripted" });
    await client.fs.write("web", "server.cjs", PROGRAM);
    const start = `node server.cjs ${port} </dev/null >server.log 2>&1 & echo started`;
    await runTurn(bench.test, "web", script({ shell: start }));
    while ((await call("GET", `web/ports/${port}/`)).status === 502)
      await new Promise((resolve) => setTimeout(resolve, 50));
  });

  it("have an address on the server's host", async () => {
    const { url } = Host.parse(await (await call("GET", `web/hosts/${port}`)).json());
    const answer = (await (await fetch(new URL("/direct?x=1", url))).json()) as Echo;
    expect(answer).toMatchObject({ method: "GET", url: "/direct?x=1" });
    for (const bad of ["0", "65536", "http"]) {
      const refused = await call("GET", `web/hosts/${bad}`);
      expect([refused.status, await codeOf(refused)]).toEqual([400, "invalid_request"]);
    }
    expect((await call("GET", "nobody/hosts/3000")).status).toBe(404);
  });

  it("keep their address", async () => {
    const { href } = await client.host("web", port);
    await client.fetchPort("web", port);
    expect((await client.host("web", port)).href).toBe(href);
  });

  it("get method, path, query and body unchanged", async () => {
    const path = "/a%2Fb/c%20d//é?q=1&q=2&empty=&s=%26%3D+x";
    const got = await echo(await client.fetchPort("web", port, path));
    expect(got).toMatchObject({
      method: "GET",
      url: encodeURI("/a%2Fb/c%20d//é").replaceAll("%25", "%") + path.slice(path.indexOf("?")),
    });

    const body = "x".repeat(300_000);
    const posted = await echo(
      await client.fetchPort("web", port, "form", { method: "POST", body, headers: { "x-mine": "yes" } }),
    );
    expect(posted).toMatchObject({ method: "POST", url: "/form", length: body.length });
    expect(posted.headers).toMatchObject({ "x-mine": "yes", "content-length": "300000" });
    const chunks = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("in "));
        controller.enqueue(new TextEncoder().encode("parts"));
        controller.close();
      },
    });
    const streamed = { method: "PUT", body: chunks, duplex: "half" } as RequestInit;
    expect(await echo(await client.fetchPort("web", port, "/put", streamed))).toMatchObject({
      method: "PUT",
      length: 8,
    });
    expect(await echo(await client.fetchPort("web", port))).toMatchObject({ url: "/" });
    expect(await echo(await call("GET", `web/ports/${port}`))).toMatchObject({ url: "/" });
    expect((await client.fetchPort("web", port, "/", { method: "HEAD" })).status).toBe(200);
    expect((await echo(await client.fetchPort("web", port, "/", { method: "DELETE" }))).method).toBe(
      "DELETE",
    );
  });

  it("see neither the server's token nor the client's origin", async () => {
    const headers = { origin: bench.url, "proxy-authorization": "Basic eA==" };
    const got = await echo(await client.fetchPort("web", port, "/", { headers }));
    expect(JSON.stringify(got)).not.toContain(TOKEN);
    for (const name of ["authorization", "proxy-authorization", "origin"])
      expect(Object.keys(got.headers)).not.toContain(name);
    const without = await fetch(client.portUrl("web", port, "/"));
    expect([without.status, await codeOf(without)]).toEqual([401, "token_invalid"]);
  });

  it("neither read nor set cookies of the server", async () => {
    const cookie = "theme=dark; sluice_session=secret; __Host-sluice_s=secret; SLUICE_x=secret; mysluice_a=1";
    const got = await echo(await client.fetchPort("web", port, "/", { headers: { cookie } }));
    expect(got.headers["cookie"]).toBe("theme=dark; mysluice_a=1");
    const none = await echo(await client.fetchPort("web", port, "/", { headers: { cookie: "sluice_a=1" } }));
    expect(Object.keys(none.headers)).not.toContain("cookie");
    const answer = await client.fetchPort("web", port, "/forged");
    expect(answer.headers.getSetCookie()).toEqual(["mysluice_a=1"]);
  });

  it("answer with their own status, headers and bytes", async () => {
    const missing = await client.fetchPort("web", port, "/missing");
    expect([missing.status, await missing.text()]).toEqual([404, "my own 404"]);
    const broken = await client.fetchPort("web", port, "/broken");
    expect([broken.status, await broken.text()]).toEqual([502, "my own 502"]);
    const moved = await client.fetchPort("web", port, "/moved", { redirect: "manual" });
    expect([moved.status, moved.headers.get("location")]).toEqual([302, "/elsewhere"]);
    const cookies = await client.fetchPort("web", port, "/cookies");
    expect(cookies.headers.getSetCookie()).toEqual(["a=1", "b=2; Path=/"]);
    const empty = await client.fetchPort("web", port, "/empty");
    expect([empty.status, await empty.text()]).toEqual([204, ""]);
    // The bytes on the wire: fetch would unpack them.
    const packed = await rawGet(`${client.portUrl("web", port, "/packed")}`);
    expect(packed.encoding).toBe("gzip");
    expect(gunzipSync(packed.body).toString()).toBe("packed");
  });

  it("cannot serve a page of the server's own origin", async () => {
    const page = await client.fetchPort("web", port, "/page");
    const policy = page.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("img-src 'self'");
    expect(policy).toMatch(/(^|, )sandbox /);
    expect(policy).not.toContain("allow-same-origin");
  });

  it.each(["/stream", "/sse"])("stream %s without buffering", async (path) => {
    const response = await client.fetchPort("web", port, path);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    const first = decoder.decode((await reader.read()).value);
    expect(first).toContain("one");
    expect(first).not.toContain("two");
    // The program continues only now, so the first half was not buffered.
    await client.fetchPort("web", port, "/go");
    let rest = "";
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
      rest += decoder.decode(chunk.value);
    expect(rest).toContain("two");
    expect(response.headers.get("content-type")).toBe(path === "/sse" ? "text/event-stream" : "text/plain");
  });

  it("see that a reader has disconnected", async () => {
    const leave = new AbortController();
    const response = await client.fetchPort("web", port, "/stream", { signal: leave.signal });
    await (response.body as ReadableStream<Uint8Array>).getReader().read();
    leave.abort();
    while (((await (await client.fetchPort("web", port, "/open")).json()) as number) > 0)
      await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it("return an error with a remedy if nothing listens or a response is truncated", async () => {
    const closed = await freePort();
    const response = await call("GET", `web/ports/${closed}/`);
    const problem = await problemOf(response);
    expect([problem.status, problem.type]).toEqual([502, "urn:sluice:error:stream_error"]);
    expect(problem.detail).toContain(`nothing answers on port ${closed}`);
    expect(problem.detail).toContain("is the program listening");
    await expect(client.fetchPort("web", closed)).rejects.toMatchObject({
      status: 502,
      code: "stream_error",
    });
    await expect(client.fetchPort("web", port, "/hangup")).rejects.toMatchObject({ status: 502 });
    await expect(client.fetchPort("nobody", port)).rejects.toMatchObject({ code: "session_not_found" });
    const bad = await call("GET", "web/ports/99999/");
    expect([bad.status, await codeOf(bad)]).toEqual([400, "invalid_request"]);
  });
});

interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly length: number;
}

async function echo(response: Response): Promise<Echo> {
  expect(response.status).toBe(200);
  return (await response.json()) as Echo;
}

function rawGet(url: string): Promise<{ encoding: string | undefined; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${TOKEN}`, "accept-encoding": "gzip", connection: "close" };
    const got = request(url, { headers }, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      resolve({ encoding: response.headers["content-encoding"], body: Buffer.concat(chunks) });
    });
    got.on("error", reject).end();
  });
}

/** The program in the sandbox: echoes requests, and streams two halves with `/go` between them. */
const PROGRAM = `
const { createServer } = require("node:http");
const { gzipSync } = require("node:zlib");
let waiting = [];
createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path === "/missing") return response.writeHead(404).end("my own 404");
  if (path === "/broken") return response.writeHead(502).end("my own 502");
  if (path === "/moved") return response.writeHead(302, { location: "/elsewhere" }).end();
  if (path === "/cookies") return response.writeHead(200, { "set-cookie": ["a=1", "b=2; Path=/"] }).end();
  if (path === "/forged")
    return response
      .writeHead(200, {
        "set-cookie": ["sluice_session=x; Path=/", "__Host-sluice_s=1", "=sluice_session=y", "Sluice_a=1", "mysluice_a=1"],
      })
      .end();
  if (path === "/empty") return response.writeHead(204).end();
  if (path === "/packed") return response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("packed"));
  if (path === "/page")
    return response.writeHead(200, { "content-type": "text/html", "content-security-policy": "img-src 'self'" }).end("<p>");
  if (path === "/hangup") return request.socket.destroy();
  if (path === "/open") return response.end(String(waiting.length));
  if (path === "/go") {
    for (const open of waiting) open.end("data: two\\n\\n");
    waiting = [];
    return response.end();
  }
  if (path === "/stream" || path === "/sse") {
    response.writeHead(200, { "content-type": path === "/sse" ? "text/event-stream" : "text/plain" });
    response.write("data: one\\n\\n");
    waiting.push(response);
    response.on("close", () => (waiting = waiting.filter((open) => open !== response)));
    return;
  }
  let length = 0;
  request.on("data", (chunk) => (length += chunk.length));
  request.on("end", () => {
    const { method, url, headers } = request;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ method, url, headers, length }));
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
`;
