import { createHash } from "node:crypto";
import { createServer, type ServerResponse } from "node:http";
import { setImmediate as immediate } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ask, type Lab, listen, openLab, portOf } from "./lab.ts";

const STREAMS = 200;
const CHUNKS = 300;

let lab: Lab;
const hashes = new Map<string, string>();
const upstream = createServer((incoming, outgoing) => {
  incoming.resume();
  void stream(String(incoming.headers["x-stream"]), outgoing);
});

async function stream(name: string, outgoing: ServerResponse): Promise<void> {
  const hash = createHash("sha256");
  outgoing.writeHead(200, { "content-type": "text/event-stream" });
  for (let at = 0; at <= CHUNKS; at++) {
    const usage = at === CHUNKS ? `,"usage":{"prompt_tokens":${at},"completion_tokens":7}` : "";
    const text = `data: {"id":"${name}","choices":[{"delta":{"content":"${"é".repeat(at % 50)}"}}]${usage}}\n\n`;
    hash.update(text);
    if (!outgoing.write(text)) await new Promise((drained) => outgoing.once("drain", drained));
    if (at % 10 === 0) await immediate();
  }
  hash.update("data: [DONE]\n\n");
  outgoing.end("data: [DONE]\n\n");
  hashes.set(name, hash.digest("hex"));
}

beforeAll(async () => {
  await listen(upstream);
  lab = await openLab(`http://127.0.0.1:${portOf(upstream)}`);
});
afterAll(async () => {
  await lab.close();
  upstream.closeAllConnections();
  upstream.close();
});

it(`loses nothing of ${STREAMS} streams at once`, { timeout: 120_000 }, async () => {
  const answers = await Promise.all(
    Array.from({ length: STREAMS }, async (_, at) => {
      const headers = { authorization: `Bearer ${lab.token}`, "x-stream": `s${at}` };
      const { chunks } = await ask(`${lab.url}/v1/chat/completions`, { headers, body: `{"n":${at}}` });
      return [`s${at}`, createHash("sha256").update(Buffer.concat(chunks)).digest("hex")] as const;
    }),
  );
  for (const [name, hash] of answers) expect([name, hash]).toEqual([name, hashes.get(name)]);
  const ends = lab.records().filter((record) => record.type === "ended");
  expect(ends).toHaveLength(STREAMS);
  for (const end of ends) expect(end.usage).toEqual({ input_tokens: CHUNKS, output_tokens: 7 });
});
