import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { array, constantFrom, integer, oneof, record, string, type Arbitrary } from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect } from "vitest";
import { createResolve } from "../../src/sandbox/egress/host/dial.ts";
import { createProxy } from "../../src/sandbox/egress/host/proxy.ts";
import { parseHostPatterns, parsePrivateNames } from "../../src/sandbox/egress/allow-list.ts";
import { fuzz } from "./fuzz.ts";

/** The bytes that an upstream got by one connection. */
const reached: { port: number; text: string }[] = [];
const servers: Server[] = [];
let [allowed, forbidden, proxyPort] = [0, 0, 0];

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return (server.address() as AddressInfo).port;
}

/** Answers each connection once. */
function createUpstream(): Server {
  const upstream = createServer((socket: Socket) => {
    const { port } = upstream.address() as AddressInfo;
    const entry = { port, text: "" };
    reached.push(entry);
    socket.on("error", () => socket.destroy());
    socket.on("data", (data) => {
      entry.text += data.toString("latin1");
      if (isWhole(entry.text)) socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
  });
  return upstream;
}

beforeAll(async () => {
  allowed = await listen(createUpstream());
  forbidden = await listen(createUpstream());
  const proxy = createProxy({
    patterns: parseHostPatterns([`allowed.test:${allowed}`]),
    privates: parsePrivateNames(["allowed.test"]),
    resolve: createResolve({ "allowed.test": ["127.0.0.1"], "forbidden.test": ["127.0.0.1"] }),
    fingerprint: "fuzz",
  });
  proxyPort = await listen(proxy);
});
beforeEach(() => void reached.splice(0));
afterAll(async () => {
  for (const server of servers) {
    (server as Partial<{ closeAllConnections(): void }>).closeAllConnections?.();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** A strict reader of its own: one request, framed in one way. */
function parse(text: string): { head: string; body: string; isChunked: boolean; length: number } | undefined {
  const at = text.indexOf("\r\n\r\n");
  if (at === -1) return undefined;
  const [head, body] = [text.slice(0, at), text.slice(at + 4)];
  const lengths = head.match(/^content-length: *\d+$/gim) ?? [];
  const codings = head.match(/^transfer-encoding:.*$/gim) ?? [];
  expect(lengths.length + codings.length, head).toBeLessThanOrEqual(1);
  for (const coding of codings) expect(coding.toLowerCase()).toBe("transfer-encoding: chunked");
  const length = Number(/\d+$/.exec(lengths[0] ?? "0")?.[0]);
  return { head, body, isChunked: codings.length > 0, length };
}

function isWhole(text: string): boolean {
  const at = text.indexOf("\r\n\r\n");
  if (at === -1) return false;
  const head = text.slice(0, at).toLowerCase();
  if (head.includes("\r\ntransfer-encoding: chunked")) return text.endsWith("0\r\n\r\n");
  return text.length - at - 4 >= Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
}

/** The body that its chunks say, and nothing after the last one. */
function unchunk(text: string): string {
  let [at, body] = [0, ""];
  for (;;) {
    const end = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, end), 16);
    expect(Number.isNaN(size)).toBe(false);
    if (size === 0) {
      expect(text.slice(end)).toBe("\r\n\r\n");
      return body;
    }
    body += text.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
  }
}

/** Sends bytes in pieces and returns the response until its end or a silence. */
function send(pieces: readonly Buffer[], silenceMs = 60): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const client = connect(proxyPort, "127.0.0.1", async () => {
      for (const piece of pieces) {
        client.write(piece);
        await new Promise((done) => setImmediate(done));
      }
    });
    client.on("data", (data) => (text += data.toString("latin1")));
    client.on("error", () => {}).on("close", () => resolve(text));
    client.setTimeout(silenceMs, () => client.destroy());
  });
}

const SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: forbidden.test\r\n\r\n";
const targets = constantFrom(
  "allowed",
  "forbidden",
  "address",
  "other name",
  "userinfo",
  "backslash",
  "encoded",
);
const headers = oneof(
  {
    weight: 9,
    arbitrary: constantFrom(
      "Content-Length: 5",
      `Content-Length: ${SMUGGLED.length}`,
      "Content-Length: 05",
      "Content-Length: +5",
      "Content-Length: 5, 5",
      "Content-Length : 5",
      "Content-Length:\t5",
      "Content-Length: 0x5",
      "Transfer-Encoding: chunked",
      "Transfer-Encoding: Chunked",
      "Transfer-Encoding: chunked, chunked",
      "Transfer-Encoding: gzip, chunked",
      "Transfer-Encoding: identity",
      "Transfer-Encoding:\x0bchunked",
      "Transfer-Encoding : chunked",
      "Transfer-Encoding: xchunked",
      "X: y\r\n Transfer-Encoding: chunked",
      "X: y\r\n\tContent-Length: 49",
      "X: y\nContent-Length: 49",
      "X: y\rTransfer-Encoding: chunked",
      "Connection: content-length",
      "Connection: Transfer-Encoding, close",
      "Connection: host, x",
      "Connection: keep-alive",
      "Connection: upgrade",
      "Upgrade: websocket",
      "Upgrade: h2c",
      "HTTP2-Settings: AAMAAABkAAQAAP__",
      "Host: forbidden.test",
      "Host: allowed.test\r\nHost: forbidden.test",
      "Expect: 100-continue",
      "TE: trailers",
      "Trailer: Content-Length",
      "__proto__: x",
      "constructor: x",
    ),
  },
  { weight: 1, arbitrary: string({ unit: "binary", maxLength: 30 }) },
);
/** Most of it is right, or nothing would come through. */
const requests = record({
  method: oneof(
    { weight: 4, arbitrary: constantFrom("GET", "POST", "HEAD", "DELETE", "OPTIONS") },
    { weight: 1, arbitrary: constantFrom("PATCH", "TRACE", "get", "M-SEARCH", "CONNECT", "") },
  ),
  target: oneof({ weight: 3, arbitrary: constantFrom("allowed") }, { weight: 1, arbitrary: targets }),
  path: oneof(
    { weight: 3, arbitrary: constantFrom("/", "/a?b") },
    {
      weight: 1,
      arbitrary: constantFrom("", "?x", "/a b", "/\r\nX: y", "/%0d%0a", "//forbidden.test/", "#x"),
    },
    { weight: 1, arbitrary: string({ maxLength: 12 }) },
  ),
  version: oneof(
    { weight: 5, arbitrary: constantFrom("HTTP/1.1") },
    { weight: 1, arbitrary: constantFrom("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "") },
  ),
  headers: array(headers, { maxLength: 4 }).map((lines) => ["Host: x"].concat(lines)),
  body: constantFrom(
    "",
    "hello",
    SMUGGLED,
    `5\r\nhello\r\n0\r\n\r\n${SMUGGLED}`,
    `0\r\n\r\n${SMUGGLED}`,
    "5;x=\r\nhello\r\n0\r\nContent-Length: 49\r\n\r\n",
  ),
  times: integer({ min: 1, max: 2 }),
  cuts: array(integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 4 }),
});

/** A body without a length is the next request. */
const CONNECTION_NAMES_LENGTH = ["GET", "HEAD", "DELETE", "OPTIONS"].map((method) => ({
  method,
  target: "allowed",
  path: "/",
  version: "HTTP/1.1",
  headers: ["Host: x", `Content-Length: ${SMUGGLED.length}`, "Connection: content-length"],
  body: SMUGGLED,
  times: 1,
  cuts: [1_000],
}));

function toText({ method, target, path, version, headers: lines, body, times }: Request): string {
  const url =
    method === "CONNECT"
      ? ({ allowed: `allowed.test`, forbidden: `127.0.0.1:${forbidden}` }[target as "allowed"] ??
        `allowed.test:${forbidden}`)
      : `${TARGETS[target]?.() ?? ""}${path}`;
  return [`${method} ${url} ${version}`, ...lines, "", body].join("\r\n").repeat(times);
}

interface Request {
  readonly method: string;
  readonly target: string;
  readonly path: string;
  readonly version: string;
  readonly headers: readonly string[];
  readonly body: string;
  readonly times: number;
}

const TARGETS: Readonly<Record<string, () => string>> = {
  allowed: () => `http://allowed.test:${allowed}`,
  forbidden: () => `http://forbidden.test:${forbidden}`,
  address: () => `http://127.0.0.1:${forbidden}`,
  "other name": () => `http://allowed.test.:${forbidden}`,
  userinfo: () => `http://allowed.test:${allowed}@127.0.0.1:${forbidden}`,
  backslash: () => `http://allowed.test:${allowed}\\@127.0.0.1:${forbidden}`,
  encoded: () => `http://allowed.test%3a${allowed}@127.0.0.1:${forbidden}`,
};

function toPieces(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = cuts[turn % cuts.length] as number;
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

function expectNoHarm(): void {
  for (const { port, text } of reached.splice(0)) {
    expect(port, text).toBe(allowed);
    const request = parse(text);
    // Half of a request is none.
    if (request === undefined) continue;
    expect(request.head).not.toMatch(/^[A-Z-]+ \/smuggled/);
    expect(request.head.match(/^host: .*$/gim)).toEqual([`host: allowed.test:${allowed}`]);
    if (!isWhole(text)) continue;
    if (request.isChunked) unchunk(request.body);
    else expect(request.body).toHaveLength(request.length);
  }
}

async function expectAlive(): Promise<void> {
  const request = `GET http://allowed.test:${allowed}/alive HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
  const answer = await send([Buffer.from(request)], 30_000);
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\nok$/);
}

describe("the proxy", () => {
  fuzz("passes on one request with one length to an allowed host, or none", {
    inputs: requests as Arbitrary<Request & { cuts: number[] }>,
    findings: CONNECTION_NAMES_LENGTH,
    tries: 250,
    async check({ cuts, ...request }) {
      await send(toPieces(Buffer.from(toText(request), "latin1"), cuts));
      await expectAlive();
      expectNoHarm();
    },
  });

  fuzz("goes on after any bytes", {
    inputs: record({
      request: requests,
      changes: array(record({ at: integer({ min: 0, max: 400 }), byte: integer({ min: 0, max: 255 }) }), {
        minLength: 1,
        maxLength: 12,
      }),
    }),
    tries: 150,
    async check({ request: { cuts, ...request }, changes }) {
      const bytes = Buffer.from(toText(request), "latin1");
      for (const { at, byte } of changes) if (at < bytes.length) bytes[at] = byte;
      await send(toPieces(bytes, cuts));
      await expectAlive();
      for (const { port } of reached.splice(0)) expect(port).toBe(allowed);
    },
  });
});
