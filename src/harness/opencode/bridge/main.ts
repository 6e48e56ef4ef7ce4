import { parseArgs } from "node:util";
import { LineSplitter } from "../../scripted/agent/lines.ts";
import { Api } from "./api.ts";
import { EventStream } from "./event-stream.ts";
import { Mailbox } from "./mailbox.ts";
import { print } from "./output.ts";
import { catchUp, Seen } from "./resync.ts";
import { startServer } from "./server.ts";
import { openSession } from "./session.ts";

/**
 * `node opencode-bridge.js [--resume=ID [--fork]] [--title=T] -- opencode`: the server of OpenCode as lines.
 * A line on stdin is a request `{method, path, body}`; a line on stdout is an event of `GET /event` as it came, or
 * the answer to a request, `{method, path, status, body}`. It lives as long as its stdin and its server.
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

// What is said before the server listens waits here: a request that comes too early hangs for ever.
const mailbox = new Mailbox();
const lines = new LineSplitter((line) => mailbox.put(line));
process.stdin.on("data", (chunk: Buffer) => lines.push(chunk));
process.stdin.on("end", () => void leave(0));
process.stdin.on("error", () => void leave(0));

void server.exited.then(({ code, signal }) => {
  const how = signal === null ? `with code ${code}` : `by ${signal}`;
  process.stderr.write(`opencode-bridge: opencode serve ended ${how}\n`);
  // It ends only when it is told to: whatever else it calls it is a failure.
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
  mailbox.open(api);
  void mailbox.ask({ method: "GET", path: "/mcp" });
} catch (error) {
  process.stderr.write(`opencode-bridge: ${error instanceof Error ? error.message : String(error)}\n`);
  await leave(1);
}

async function leave(code: number): Promise<void> {
  await server.stop();
  process.exit(code);
}
