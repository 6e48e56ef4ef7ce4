import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir, rm, stat } from "node:fs/promises";
import { get, type IncomingMessage, type RequestOptions } from "node:http";
import { connect } from "node:net";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createEdge, RUNNER_HEADER } from "./edge.ts";
import { createRunner } from "./server.ts";

// `node runner.cjs up [ROOT]` starts the runner of this account, where none answers, and prints its socket.
// `node runner.cjs serve ROOT` is the runner. `node runner.cjs listen ROOT PORT` is one on a port of loopback, without an end.
// `node runner.cjs dial SOCKET|PORT` connects its stdio to it.
// `node runner.cjs edge ROOT PORT` starts one on all addresses, where none answers; ROOT has the file `token`, a hash.

const IDLE_MS = Number(process.env["SLUICE_RUNNER_IDLE_MS"] ?? 600_000);
const BUILD = createHash("sha256").update(readFileSync(__filename)).digest("hex").slice(0, 16);

async function up(root: string): Promise<void> {
  const socket = socketOf(root);
  await mkdir(join(root, "run"), { recursive: true, mode: 0o700 });
  for (let tries = 0; tries < 100; tries += 1) {
    if (await answers(socket)) {
      process.stdout.write(`${JSON.stringify({ socket, root, build: BUILD })}\n`);
      return;
    }
    if (tries === 0 || tries % 20 === 0) startDetached(root, ["serve", root]);
    await sleep(50);
  }
  throw new Error(`the runner did not start; see ${join(root, "run", "runner.log")}`);
}

function startDetached(root: string, words: string[]): void {
  const log = openSync(join(root, "run", "runner.log"), "a", 0o600);
  const child = spawn(process.execPath, [__filename, ...words], {
    cwd: "/",
    detached: true,
    stdio: ["ignore", log, log],
  });
  child.on("error", () => {});
  child.unref();
  closeSync(log);
}

function answers(path: string): Promise<boolean> {
  return asks({ socketPath: path, path: "/v1/hello" }, ({ statusCode }) => statusCode === 200);
}

function asks(to: RequestOptions, isFine: (response: IncomingMessage) => boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({ ...to, timeout: 2_000 }, (response) => {
      response.resume();
      resolve(isFine(response));
    });
    request.on("error", () => resolve(false)).on("timeout", () => request.destroy());
  });
}

async function serve(root: string): Promise<void> {
  process.umask(0o077);
  const path = socketOf(root);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  if (await answers(path)) return;
  await rm(path, { force: true });
  const server = createRunner({ root, build: BUILD });
  // Two runners may start together. The later one replaces the socket; the earlier one notices that, and ends.
  server.listen(path, () => void watchOver(path, server));
  server.on("error", () => process.exit(1));
}

async function watchOver(path: string, server: ReturnType<typeof createRunner>): Promise<void> {
  const { ino } = await stat(path);
  let idleSince = Date.now();
  setInterval(async () => {
    const found = await stat(path).catch(() => undefined);
    server.getConnections((_error, count) => {
      if (count > 0) idleSince = Date.now();
      const isIdle = Math.abs(Date.now() - idleSince) > IDLE_MS;
      if (count > 0 || (found?.ino === ino && !isIdle)) return;
      // The socket of another runner stays.
      if (found?.ino === ino) server.close(() => process.exit(0));
      else process.exit(0);
    });
  }, 1_000);
}

function dial(to: string): void {
  const socket = /^\d+$/.test(to) ? connect(Number(to), "127.0.0.1") : connect(to);
  socket.on("error", (error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
  socket.on("close", () => process.exit(0));
  process.stdin.pipe(socket).pipe(process.stdout);
}

/** Below the limit of a socket's path, for most homes. */
function socketOf(root: string): string {
  return join(root, "run", `${BUILD.slice(0, 8)}.sock`);
}

function listen(root: string, port: number): void {
  process.umask(0o077);
  createRunner({ root, build: BUILD }).listen({ host: "127.0.0.1", port });
}

/** Starts a runner where none answers on the port, and waits for it. */
async function edge(root: string, port: number): Promise<void> {
  await mkdir(join(root, "run"), { recursive: true, mode: 0o700 });
  const isUp = (): Promise<boolean> =>
    asks({ host: "127.0.0.1", port }, ({ headers }) => headers[RUNNER_HEADER] !== undefined);
  for (let tries = 0; tries < 200; tries += 1) {
    if (await isUp()) return;
    if (tries % 40 === 0) startDetached(root, ["serve-edge", root, String(port)]);
    await sleep(50);
  }
  throw new Error(
    `the runner did not start: ${readFileSync(join(root, "run", "runner.log"), "utf8").slice(-500)}`,
  );
}

function serveEdge(root: string, port: number): void {
  process.umask(0o077);
  const hash = readFileSync(join(root, "token"), "utf8").trim();
  // A missing hash must not admit the empty token's.
  if (!/^[0-9a-f]{64}$/.test(hash)) throw new Error("the runner has no token");
  createEdge(createRunner({ root, build: BUILD }), { hash, build: BUILD }).listen(port);
}

const [command, given, port] = process.argv.slice(2);
const edgePort = Number(process.env["SLUICE_RUNNER_PORT"] ?? port);
const root = given ?? join(homedir(), ".sluice", "runner");
const COMMANDS: Record<string, () => unknown> = {
  up: () => up(root),
  serve: () => serve(root),
  listen: () => listen(root, Number(port)),
  dial: () => dial(given ?? ""),
  edge: () => edge(root, edgePort),
  "serve-edge": () => serveEdge(root, edgePort),
};
Promise.resolve(COMMANDS[command ?? ""]?.()).catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
