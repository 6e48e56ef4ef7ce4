import type { Server as HttpServer } from "node:http";
import { createServer as createTcp, type Server, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { AnswerReader } from "../../src/gateway/answer-reader.ts";
import { readRate } from "../../src/gateway/headers.ts";
import { anthropic } from "../../src/gateway/wires/anthropic.ts";
import { EventStreamReader } from "../../src/gateway/wires/event-stream.ts";
import { ask, type Got, KEY, type Lab, openLab, portOf } from "./lab.ts";

let lab: Lab | undefined;
let server: Server | HttpServer | undefined;
const sockets = new Set<Socket>();
afterEach(async () => {
  await lab?.close();
  lab = undefined;
  for (const socket of sockets) socket.destroy();
  server?.close();
  server = undefined;
});

/** A provider that answers with these bytes. */
async function openWith(...answer: (string | Buffer)[]): Promise<Lab> {
  const tcp = createTcp((socket) => {
    sockets.add(socket.on("error", () => {}));
    socket.once("data", () => {
      for (const bytes of answer) socket.write(bytes);
    });
  });
  server = tcp;
  await new Promise<void>((resolve) => tcp.listen(0, "127.0.0.1", resolve));
  lab = await openLab(`http://127.0.0.1:${portOf(tcp as HttpServer)}`);
  return lab;
}

const send = ({ url, token }: Lab): Promise<Got> =>
  ask(`${url}/v1/messages`, { headers: { "x-api-key": token }, body: '{"model":"m"}' });

/** The head of an error. */
const head = (length: number, more = "") =>
  `HTTP/1.1 401 No\r\nContent-Length: ${length}\r\nConnection: close\r\n${more}\r\n`;

describe("a hostile answer", () => {
  it.each([
    ["another protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"],
    ["no HTTP", "SSH-2.0-evil\r\n"],
    ["a status that is none", "HTTP/1.1 099 No\r\nContent-Length: 0\r\n\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
    ["a head without an end", `HTTP/1.1 200 OK\r\n${`X: ${"a".repeat(1000)}\r\n`.repeat(200)}`],
    ["a line break in a header", "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 0\r\n\r\n"],
  ])("of %s ends its request, and the gateway goes on", async (_name, text) => {
    const lab = await openWith(text);
    const got = await send(lab);
    expect([got.status, got.isCut]).toEqual([502, false]);
    expect(got.headers["sluice-gateway"]).toBe("refused");
    expect(lab.records().filter(({ type }) => type === "ended")).toHaveLength(1);
    expect((await ask(`${lab.url}/v1/x`, { headers: { "x-api-key": lab.token } })).status).toBe(403);
  });

  it("quotes the key in vain, also compressed, and at the end of a very long error", async () => {
    const zipped = gzipSync(JSON.stringify({ error: `bad key ${KEY}` }));
    const zipping = await openWith(head(zipped.length, "Content-Encoding: gzip\r\n"), zipped);
    const got = await send(zipping);
    expect([got.status, got.body, got.headers["content-encoding"]]).toEqual([401, "", undefined]);
    await zipping.close();
    server?.close();
    const half = Math.floor(KEY.length / 2);
    const long = `${"x".repeat(1024 * 1024 - half)}${KEY}${"y".repeat(100)}`;
    const lab = await openWith(head(long.length), long);
    const { body } = await send(lab);
    expect(body).not.toContain(KEY.slice(0, half));
    expect(lab.text()).not.toContain(KEY.slice(0, half));
  });

  it.each(["99999999999999999999", "1e400", "9999999999999h", "Fri, 31 Dec 99999 23:59:59 GMT"])(
    "names %s as the reset of its limit, which nobody believes",
    (text) => {
      expect(readRate({ "retry-after": [text] }, Date.now())).toBeUndefined();
    },
  );

  it("names numbers of tokens that no sum can hold, which are left out", async () => {
    const usage = { input_tokens: 9_007_199_254_740_991, output_tokens: 7 };
    const text = JSON.stringify({ type: "message", id: "m", usage });
    const lab = await openWith(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
    expect((await send(lab)).body).toBe(text);
    expect(lab.records().at(-1)).toMatchObject({
      type: "ended",
      usage: { output_tokens: 7 },
    });
  });

  it("of a line or a frame that never ends, in single bytes, costs no more than its bytes", () => {
    const reader = new AnswerReader(anthropic, "text/event-stream");
    const frames = new EventStreamReader();
    const [byte, head] = [Buffer.from("x"), Buffer.alloc(12)];
    head.writeUInt32BE(8 * 1024 * 1024, 0);
    frames.write(head);
    reader.write(Buffer.from("data: "));
    // With a copy or a search of all bytes for each of them, this would take hours.
    for (let at = 0; at < 1_000_000; at++) {
      reader.write(byte);
      frames.write(byte);
    }
    reader.write(Buffer.from('\n\ndata: {"type":"message_stop"}\n\n'));
    expect(reader.facts).toMatchObject({ isDone: true });
  }, 60_000);
});
