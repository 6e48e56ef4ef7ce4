import { request } from "node:http";
import type { Duplex } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createMemoryCatalog } from "../../../src/catalog/index.ts";
import { createClient, type SluiceClient } from "../../../src/client/index.ts";
import { runTurn, script } from "../../support/engine.ts";
import { freePort } from "../../support/server.ts";
import { type AppBench, openApp } from "../app-bench.ts";

const TOKEN = "a-token-that-no-program-may-see";
let bench: AppBench;
let client: SluiceClient;
let port: number;

/** Answers a WebSocket handshake with the headers that it saw, then echoes every byte; declines at /no. */
const PROGRAM = `
const http = require("node:http");
const server = http.createServer((request, response) => response.end("plain " + request.method));
server.on("upgrade", (request, socket, head) => {
  if (request.url === "/no") return socket.end("HTTP/1.1 403 Forbidden\\r\\ncontent-length: 2\\r\\n\\r\\nno");
  const seen = Buffer.from(JSON.stringify({ url: request.url, headers: request.headers })).toString("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nconnection: Upgrade\\r\\nupgrade: websocket\\r\\n" +
    "sec-websocket-accept: x\\r\\nset-cookie: a=1\\r\\nauthorization: y\\r\\nx-seen: " + seen + "\\r\\n\\r\\nhello");
  socket.write(head);
  socket.pipe(socket);
});
server.listen(Number(process.argv[2]), "127.0.0.1");
`;

beforeAll(async () => {
  bench = await openApp({ token: TOKEN, catalog: createMemoryCatalog() });
  client = createClient({ url: bench.url, token: TOKEN });
  port = await freePort();
  await client.sessions.create("web", { agent: "scripted" });
  await client.fs.write("web", "server.cjs", PROGRAM);
  await runTurn(
    bench.test,
    "web",
    script({ shell: `node server.cjs ${port} </dev/null >log 2>&1 & echo ok` }),
  );
  const isUp = (): Promise<boolean> =>
    client.fetchPort("web", port).then(
      () => true,
      () => false,
    );
  while (!(await isUp())) await new Promise((resolve) => setTimeout(resolve, 50));
});
afterAll(() => bench.close());

interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly socket?: Duplex;
  readonly body?: string;
}

function upgrade(path: string, headers: Record<string, string>, protocol = "websocket"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(`${bench.url}${path}`, {
      agent: false,
      headers: { connection: "Upgrade", upgrade: protocol, "sec-websocket-key": "k", ...headers },
    });
    sent.on("error", reject);
    sent.on("upgrade", (answer, socket, head) => {
      socket.unshift(head);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, socket });
    });
    sent.on("response", (answer) => {
      let body = "";
      answer.on("data", (chunk) => (body += chunk));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }));
    });
    sent.end();
  });
}

const authorization = `Bearer ${TOKEN}`;
const path = (rest = "/socket?x=1"): string => `/v1/sessions/web/ports/${port}${rest}`;

async function readUntil(socket: Duplex, length: number): Promise<string> {
  let text = "";
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    text += String(chunk);
    if (text.length >= length) break;
  }
  return text;
}

describe("a WebSocket through a port", () => {
  it("passes bytes both ways, and no cookie or token", async () => {
    const headers = { authorization, cookie: "session=1", "sec-websocket-protocol": "chat" };
    const { status, headers: got, socket } = await upgrade(path(), headers);
    expect(status).toBe(101);
    expect(got).toMatchObject({ upgrade: "websocket", "sluice-port": String(port) });
    expect(got["set-cookie"]).toBeUndefined();
    expect(got["authorization"]).toBeUndefined();
    const seen = JSON.parse(Buffer.from(String(got["x-seen"]), "base64").toString()) as {
      url: string;
      headers: Record<string, string>;
    };
    expect(seen.url).toBe("/socket?x=1");
    expect(seen.headers["sec-websocket-protocol"]).toBe("chat");
    for (const name of ["authorization", "cookie", "origin"]) expect(seen.headers[name]).toBeUndefined();
    const big = "x".repeat(1_000_000);
    socket?.write(big);
    expect(await readUntil(socket as Duplex, 5 + big.length)).toBe(`hello${big}`);
    socket?.destroy();
  });

  it.each([
    ["no token", {}, 401],
    ["a wrong token", { authorization: "Bearer wrong" }, 401],
    ["a foreign host", { authorization, host: "evil.example" }, 421],
    ["a foreign origin", { authorization, origin: "https://evil.example" }, 403],
  ])("is refused with %s", async (_, headers, status) => {
    const refused = await upgrade(path(), headers as Record<string, string>);
    expect([refused.status, refused.headers["content-type"]]).toEqual([status, "application/problem+json"]);
    expect(JSON.parse(refused.body ?? "")).toMatchObject({ status });
  });

  it("is the program's to decline", async () => {
    const declined = await upgrade(path("/no"), { authorization });
    expect([declined.status, declined.body]).toEqual([403, "no"]);
    const nobody = await upgrade(`/v1/sessions/web/ports/${port === 1024 ? 1025 : 1024}/`, { authorization });
    expect(nobody.status).toBe(502);
  });

  it("needs the scope control, and ends with its token", async () => {
    const reader = await client.tokens.create({ scope: "read" });
    expect((await upgrade(path(), { authorization: `Bearer ${reader.token}` })).status).toBe(403);
    const { id, token } = await client.tokens.create({ scope: "control" });
    const { status, socket } = await upgrade(path(), { authorization: `Bearer ${token}` });
    expect(status).toBe(101);
    const ended = new Promise((resolve) => socket?.once("close", resolve));
    socket?.on("error", () => {}).resume();
    await client.tokens.revoke(id);
    await ended;
  });

  it("leaves every other upgrade a plain request", async () => {
    const listed = await upgrade("/v1/sessions", { authorization }, "h2c");
    expect([listed.status, JSON.parse(listed.body ?? "")]).toMatchObject([200, { sessions: [{}] }]);
    const socket = await upgrade("/v1/sessions", { authorization });
    expect(socket.status).toBe(200);
  });
});
