import { createServer } from "node:http";

/** The minimum cost of Node: a server that answers and keeps sessions only in memory. */
const sessions = new Map<string, unknown>();

const server = createServer((request, response) => {
  if (request.method === "GET") return answer(200, { status: "ok" });
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const session = { id: request.url ?? "", spec: JSON.parse(Buffer.concat(chunks).toString()) as unknown };
    sessions.set(session.id, session);
    answer(201, session);
  });

  function answer(status: number, body: unknown): void {
    const text = JSON.stringify(body);
    response.writeHead(status, {
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
    });
    response.end(text);
  }
});
const port = Number(process.argv.at(-1));
server.listen(port, "127.0.0.1", () => process.stdout.write(`listening on http://127.0.0.1:${port}\n`));
