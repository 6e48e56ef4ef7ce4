import { parseArgs } from "node:util";
import { LineSplitter } from "../../../text/line-splitter.ts";
import { Api, openSession, print, RequestQueue } from "./api.ts";
import { catchUp, EventStream, Seen } from "./events.ts";
import { startServer } from "./server.ts";

/**
 * `node opencode-gateway.js [--resume=ID [--fork]] [--title=T] -- opencode`: a gateway between lines and OpenCode's
 * server. A line on stdin is a request `{method, path, body}`. A line on stdout is an event of `GET /event`, or the
 * answer to a request, `{method, path, status, body}`. It runs as long as its stdin and its server.
 */
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { resume: { type: "string" }, fork: { type: "boolean" }, title: { type: "string" } },
});

process.stdout.on("error", () => process.exit(1));
const server = startServer(positionals[0] ?? "opencode");
for (const [signal, code] of [
  ["SIGTERM", 143],
  ["SIGINT", 130],
  ["SIGHUP", 129],
] as const) {
  process.on(signal, () => void leave(code));
}

// Requests wait here until the server listens: an early request would hang for ever.
const requests = new RequestQueue();
const lines = new LineSplitter((line) => requests.put(line));
process.stdin.on("data", (chunk: Buffer) => lines.push(chunk));
process.stdin.on("end", () => void leave(0));
process.stdin.on("error", () => void leave(0));

void server.exited.then(({ code, signal }) => {
  const how = signal === null ? `with code ${code}` : `by ${signal}`;
  process.stderr.write(`opencode-gateway: opencode serve ended ${how}\n`);
  // The server ends only on request, so any other exit is a failure.
  process.exit(code === null || code === 0 ? 1 : code);
});

try {
  const api = new Api(await server.listening, server.password);
  const seen = new Seen();
  const events = new EventStream(api, {
    event: (data) => {
      seen.note(data);
      print(data);
    },
    reconnected: () => catchUp(api, seen),
  });
  await events.connect();
  seen.session = await openSession(api, options);
  requests.open(api);
  void requests.ask({ method: "GET", path: "/mcp" });
} catch (error) {
  process.stderr.write(`opencode-gateway: ${error instanceof Error ? error.message : String(error)}\n`);
  await leave(1);
}

async function leave(code: number): Promise<void> {
  await server.stop();
  process.exit(code);
}
