import { createServer, type IncomingMessage, type Server } from "node:http";
import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ask, type Lab, listen, openLab, portOf } from "./lab.ts";

let lab: Lab;
afterEach(() => lab.close());

/** A provider that answers each request after a moment. */
async function serveSlowly(
  onRequest: (request: IncomingMessage) => void = () => {},
): Promise<{ server: Server; url: string }> {
  const server = await listen(
    createServer((request, response) => {
      onRequest(request);
      request.resume().on("end", () => setTimeout(() => response.end("{}"), 100));
    }),
  );
  return { server, url: `http://127.0.0.1:${portOf(server)}` };
}

/** Sends bytes as they are, and reads until the connection ends. */
function sendRaw(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    let got = "";
    socket.on("data", (chunk) => (got += chunk.toString("latin1")));
    socket.on("error", () => {});
    socket.on("close", () => resolve(got));
    socket.write(text);
  });
}

describe("hostile requests", () => {
  const head = (extra: string, line = "POST /up/v1/messages HTTP/1.1") =>
    `${line}\r\nHost: 127.0.0.1:${lab.port}\r\nx-api-key: ${lab.token}\r\n${extra}\r\n`;
  const isServed = async () =>
    (await ask(`${lab.url}/v1/files`, { method: "GET", headers: { "x-api-key": lab.token } })).status;

  it("are refused, and the gateway goes on", async () => {
    lab = await openLab("http://127.0.0.1:9", { requestMs: 500 });
    const both = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n";
    const cases: [string, RegExp][] = [
      [head("", "CONNECT api.example.com:443 HTTP/1.1"), /^HTTP\/1\.1 403/],
      [
        head("Connection: Upgrade\r\nUpgrade: websocket\r\n", "GET /up/v1/models HTTP/1.1"),
        /^HTTP\/1\.1 403/,
      ],
      [
        head("Connection: close\r\n", "POST http://api.example.com/up/v1/messages HTTP/1.1"),
        /^HTTP\/1\.1 403/,
      ],
      [head(both), /^HTTP\/1\.1 400/],
      [head("Content-Length: 4\r\nContent-Length: 5\r\n"), /^HTTP\/1\.1 400/],
      [head("Transfer-Encoding: gzip, chunked\r\nConnection: close\r\n"), /^HTTP\/1\.1 400/],
      [head("X: a\nContent-Length: 0\r\n"), /^HTTP\/1\.1 400/],
      [head(`X: ${"a".repeat(100_000)}\r\n`), /^HTTP\/1\.1 400/],
      [head("Content-Length: 2000000000\r\n"), /^HTTP\/1\.1 413/],
      // A request that never ends.
      [head("Content-Length: 10\r\n"), /^HTTP\/1\.1 408|^$/],
      ["POST /up/v1/messages HTTP/1.1\r\nHo", /^HTTP\/1\.1 408/],
      [`\u0016\u0003\u0001${"x".repeat(40)}\r\n\r\n`, /^HTTP\/1\.1 400/],
    ];
    for (const [text, expected] of cases) expect(await sendRaw(lab.port, text)).toMatch(expected);
    expect(await isServed()).toBe(403);
    expect(lab.records().filter(({ type }) => type === "started")).toEqual([]);
  });

  it("with a forged Host are refused", async () => {
    lab = await openLab("http://127.0.0.1:9");
    const forged = `POST /up/v1/messages HTTP/1.1\r\nHost: api.example.com\r\nx-api-key: ${lab.token}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(lab.port, forged)).toMatch(/^HTTP\/1\.1 403/);
    expect(lab.records()).toMatchObject([{ type: "refused", why: "host" }]);
  });

  it("without an end of their body are cut at the limit", async () => {
    lab = await openLab("http://127.0.0.1:9");
    const chunk = `100000\r\n${"a".repeat(0x100000)}\r\n`;
    const answer = await sendRaw(lab.port, head("Transfer-Encoding: chunked\r\n") + chunk.repeat(66));
    expect(answer).toMatch(/^HTTP\/1\.1 413|^$/);
    expect(await isServed()).toBe(403);
  });

  it("23: with a path that only ends like a model call are refused", async () => {
    lab = await openLab("http://127.0.0.1:9");
    const headers = { "x-api-key": lab.token };
    for (const path of [
      "/v1/threads/t/messages",
      "/v1/organizations/o/models",
      "/files/v1/responses",
      "/v1/messages/batches",
      "/v1/model/a/invoke",
      "/v1/projects/p/publishers/anthropic/models/m:rawPredict",
      "/v1/tunedModels/m:generateContent",
      "/v1beta/corpora/c/models/m:generateContent",
    ])
      for (const method of ["GET", "POST"])
        expect([(await ask(lab.url + path, { method, headers })).status, path]).toEqual([403, path]);
  });

  it("23: are held up to a limit of all of them together, and their room is free again", async () => {
    const { server, url } = await serveSlowly();
    lab = await openLab(url, { mostBytes: 3_000_000 });
    const send = () =>
      ask(`${lab.url}/v1/messages`, {
        headers: { "x-api-key": lab.token },
        body: JSON.stringify({ model: "m", text: "x".repeat(1_000_000) }),
      });
    const all = await Promise.all(Array.from({ length: 64 }, send));
    const statuses = new Set(all.map(({ status }) => status));
    expect([...statuses].sort()).toEqual([200, 503]);
    expect(all.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(2);
    await expect.poll(async () => (await send()).status).toBe(200);
    server.closeAllConnections();
    server.close();
  });

  it.each([
    ["a list", "[]"],
    ["no JSON", "{"],
    ["another encoding", Buffer.from('{"model":"m"}', "utf16le")],
    ["millions of objects", `{"a":[${"{},".repeat(2_100_000)}0]}`],
  ])("23: whose body is %s are refused, as nobody could check them", async (_name, body) => {
    lab = await openLab("http://127.0.0.1:9");
    const { status } = await ask(`${lab.url}/v1/messages`, { headers: { "x-api-key": lab.token }, body });
    expect([400, 413]).toContain(status);
    expect(lab.records().map(({ type }) => type)).toEqual(["refused"]);
  });

  it("23: that nobody could measure are refused: in the background, or compressed", async () => {
    lab = await openLab("http://127.0.0.1:9");
    const headers = { authorization: `Bearer ${lab.token}` };
    const send = (body: string, more = {}) =>
      ask(`${lab.url}/v1/responses`, { headers: { ...headers, ...more }, body });
    expect((await send('{"model":"m","background":true}')).status).toBe(403);
    expect((await send('{"model":"m"}', { "content-encoding": "gzip" })).status).toBe(415);
    expect(lab.records().every(({ type }) => type === "refused")).toBe(true);
  });

  it("23: cannot lead the provider to another method, path, host or project", async () => {
    const seen: string[] = [];
    const { server, url } = await serveSlowly((request) => seen.push(JSON.stringify(request.rawHeaders)));
    lab = await openLab(url);
    const evil = {
      "x-http-method-override": "DELETE",
      "x-original-url": "/v1/evil",
      "x-rewrite-url": "/v1/evil",
      "x-forwarded-host": "evil.example",
      forwarded: "host=evil.example",
      "x-goog-user-project": "evil",
    };
    const headers = { "x-api-key": lab.token, ...evil };
    await ask(`${lab.url}/v1/messages?%6bey=${lab.token}&%24key=evil`, { headers, body: "{}" });
    expect(seen).toHaveLength(1);
    expect(seen[0]).not.toMatch(/evil|DELETE|sess_/i);
    server.closeAllConnections();
    server.close();
  });

  it("do not fill the records", async () => {
    lab = await openLab("http://127.0.0.1:9");
    for (let at = 0; at < 40; at++) await isServed();
    expect(lab.records()).toHaveLength(10);
  });
});
