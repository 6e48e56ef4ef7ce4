import { createServer } from "node:http";
import type { Readable } from "node:stream";

/** A model that streams as many chunks as it is asked for, at most so many in a second. */
const server = createServer((request, response) => void answer(request, response));

async function answer(
  request: Readable,
  response: NodeJS.WritableStream & { writeHead: Head },
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const { count, perSecond } = JSON.parse(Buffer.concat(chunks).toString()) as {
    count: number;
    perSecond: number;
  };
  response.writeHead(200, { "content-type": "text/event-stream" });
  const begun = performance.now();
  for (let sent = 0; sent < count;) {
    const due = Math.min(count, 1 + Math.floor(((performance.now() - begun) / 1_000) * perSecond));
    for (; sent < due; sent++)
      if (!response.write(CHUNK)) await new Promise((drained) => response.once("drain", drained));
    if (sent < count) await new Promise((later) => setTimeout(later, 5));
  }
  response.end(END);
}

type Head = (status: number, headers: Record<string, string>) => unknown;

const CHUNK = 'data: {"id":"c","choices":[{"delta":{"content":"some words of an answer"}}]}\n\n';
const END = "data: [DONE]\n\n";

const port = Number(process.argv.at(-1));
server.listen(port, "127.0.0.1", () => process.stdout.write(`listening on http://127.0.0.1:${port}\n`));
