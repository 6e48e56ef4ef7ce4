import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { ask, type Lab, openLab } from "./lab.ts";

let lab: Lab;
afterEach(() => lab.close());

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

  it("do not fill the records", async () => {
    lab = await openLab("http://127.0.0.1:9");
    for (let at = 0; at < 40; at++) await isServed();
    expect(lab.records()).toHaveLength(10);
  });
});
