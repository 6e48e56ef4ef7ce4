import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SluiceError, toProblem } from "../../contract/index.ts";
import type { SandboxSpec } from "../port.ts";
import { findPrograms, OPERATIONS } from "./operations.ts";
import { hasProgram, keepProgram, programPath } from "./programs.ts";
import { RunnerSandboxes } from "./sandboxes.ts";

export const RUNNER_PROTOCOL = 1;
/** A stream is ended after this time, and its reader begins again: edges cut connections that last long. */
const STREAM_MS = 120_000;
const ALIVE_MS = 10_000;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

export interface RunnerOptions {
  readonly root: string;
  readonly build: string;
}

/** The HTTP server of the runner. `PROTOCOL.md` has its operations. */
export function createRunner(options: RunnerOptions): Server {
  const sandboxes = new RunnerSandboxes(options.root);
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000 }, (request, response) => {
    route(request, response, sandboxes, options).catch((error: unknown) => fail(response, error));
  });
  server.on("upgrade", (request, socket: Duplex) => {
    // Node takes its own listener off an upgraded socket; an error without one would end the runner.
    socket.on("error", () => socket.destroy());
    openPort(request, socket, sandboxes).catch((error: unknown) => {
      const { status, detail } = toProblem(toSluiceError(error));
      socket.end(
        `HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n${detail}\n`,
      );
    });
  });
  return server;
}

async function route(
  request: IncomingMessage,
  response: ServerResponse,
  sandboxes: RunnerSandboxes,
  { root, build }: RunnerOptions,
): Promise<void> {
  const { parts, query } = toTarget(request);
  const [area, id = "", operation = ""] = parts;
  if (area === "hello") {
    return answer(response, { protocol: RUNNER_PROTOCOL, build, node: process.execPath, root });
  }
  if (area === "which") {
    const { names } = await readBody(request);
    return answer(response, findPrograms(Array.isArray(names) ? names : []));
  }
  if (area === "programs") {
    const path = programPath(root, id, operation);
    if (request.method === "PUT") await keepProgram(path, id, await readBytes(request));
    return answer(response, { path, exists: hasProgram(path) });
  }
  if (area !== "s" || id === "") throw new SluiceError("not_found", `There is no operation ${request.url}.`);
  sandboxes.admit(id, epochOf(request));
  if (operation === "create") {
    return answer(response, await sandboxes.create({ ...(await readBody(request)), id } as SandboxSpec));
  }
  if (operation === "object") return serveObject(request, response, sandboxes, { id, query });
  if (operation === "accept") {
    await sandboxes.demand(id);
    const name = query.get("name") ?? "";
    return stream(response, (signal) => sandboxes.listeners.connections(id, name, signal));
  }
  if (operation === "file") return serveFile(request, response, sandboxes, { id, query });
  if (operation === "follow" || operation === "replay" || operation === "outputs")
    return stream(response, (signal) => openStream(operation, sandboxes, { id, query }, signal));
  const known = Object.hasOwn(OPERATIONS, operation) ? OPERATIONS[operation] : undefined;
  if (!known) throw new SluiceError("not_found", `There is no operation ${operation}.`);
  const abort = new AbortController();
  response.on("close", () => abort.abort());
  answer(response, await known(sandboxes, id, await readBody(request), abort.signal));
}

interface Target {
  readonly id: string;
  readonly query: URLSearchParams;
}

async function serveFile(
  request: IncomingMessage,
  response: ServerResponse,
  sandboxes: RunnerSandboxes,
  { id, query }: Target,
): Promise<void> {
  const { files } = await sandboxes.demand(id);
  const path = query.get("path") ?? "";
  if (request.method === "PUT") {
    const mode = query.get("mode");
    await files.write(path, request, mode === null ? {} : { mode: Number(mode) });
    return answer(response, null);
  }
  const { size, content } = await files.open(path);
  response.writeHead(200, { "content-type": "application/octet-stream", "content-length": size });
  await pipeline(content, response).catch(() => response.destroy());
}

/** A part of a checkpoint on its way. */
async function serveObject(
  request: IncomingMessage,
  response: ServerResponse,
  { trees }: RunnerSandboxes,
  { id, query }: Target,
): Promise<void> {
  const key = query.get("key") ?? "";
  if (request.method === "PUT") {
    await trees.put(id, key, await readBytes(request));
    return answer(response, null);
  }
  const bytes = await trees.read(id, key);
  response.writeHead(200, {
    "content-type": "application/octet-stream",
    "content-length": bytes.byteLength,
  });
  response.end(bytes);
}

/** The batches of a spool, as JSON. */
async function* openStream(
  operation: "follow" | "replay" | "outputs",
  sandboxes: RunnerSandboxes,
  { id, query }: Target,
  signal: AbortSignal,
): AsyncGenerator<unknown, void> {
  const spool = await sandboxes.spool(id, query.get("name") ?? "");
  const at = (name: string): number => Number(query.get(name) ?? 0);
  if (operation === "follow") yield* spool.follow({ from: at("from"), signal });
  else if (operation === "replay") yield* spool.replay(at("from"), at("to"));
  else {
    const from = { stdout: at("stdout"), stderr: at("stderr") };
    for await (const { stdout, stderr, exit } of spool.outputs({ from, signal })) {
      const texts = { stdout: toBase64(stdout), stderr: toBase64(stderr) };
      yield { ...texts, ...(exit === undefined ? {} : { exit }) };
    }
  }
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** A line per batch, an empty line as a sign of life. An error is a line, too. A stream without a last line was cut. */
async function stream(
  response: ServerResponse,
  open: (signal: AbortSignal) => AsyncGenerator<unknown, void>,
): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  response.flushHeaders();
  const alive = setInterval(() => response.write("\n"), ALIVE_MS);
  try {
    for await (const batch of open(AbortSignal.any([gone.signal, AbortSignal.timeout(STREAM_MS)]))) {
      if (response.destroyed) return;
      if (!response.write(`${JSON.stringify(batch)}\n`)) await drained(response);
    }
    response.end(`${JSON.stringify({ end: true })}\n`);
  } catch (error) {
    response.end(`${JSON.stringify({ problem: toProblem(toSluiceError(error)) })}\n`);
  } finally {
    clearInterval(alive);
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    response.once("drain", resolve).once("close", resolve);
  });
}

/**
 * `GET /v1/s/{id}/port/{n}` with `Upgrade: tcp`: a connection to a port of the machine's loopback. `…/accept/{n}` is one
 * that waits there for the server.
 */
async function openPort(request: IncomingMessage, socket: Duplex, sandboxes: RunnerSandboxes): Promise<void> {
  const { parts } = toTarget(request);
  const [area, id = "", operation, given = ""] = parts;
  if (area !== "s" || !/^\d{1,12}$/.test(given) || (operation !== "port" && operation !== "accept"))
    throw new SluiceError("not_found", `There is no operation ${request.url}.`);
  sandboxes.admit(id, epochOf(request));
  await sandboxes.demand(id);
  const target =
    operation === "accept" ? sandboxes.listeners.claim(id, given) : await connectTo(Number(given));
  if (socket.destroyed) return void target.destroy();
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
  await pipeline(socket, target, socket).catch(() => {});
  socket.destroy();
  target.destroy();
}

async function connectTo(port: number): Promise<Duplex> {
  const target = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  await new Promise<void>((resolve, reject) => target.once("connect", resolve).once("error", reject));
  return target;
}

function toTarget({ url = "" }: IncomingMessage): { parts: string[]; query: URLSearchParams } {
  const { pathname, searchParams } = new URL(url, "http://runner");
  const [version, ...parts] = pathname.slice(1).split("/").map(decodeURIComponent);
  if (version !== `v${RUNNER_PROTOCOL}`)
    throw new SluiceError("not_found", `This runner speaks v${RUNNER_PROTOCOL} alone.`);
  return { parts, query: searchParams };
}

function epochOf({ headers }: IncomingMessage): number | undefined {
  const given = headers["sluice-epoch"];
  return given === undefined ? undefined : Number(given) || 0;
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new SluiceError("too_large", "The body of a call is too large.");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function readBody(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const body = (await readBytes(request)).toString("utf8");
  try {
    const parsed: unknown = body === "" ? {} : JSON.parse(body);
    if (typeof parsed === "object" && parsed !== null) return parsed as Readonly<Record<string, unknown>>;
  } catch {
    // Refused below.
  }
  throw new SluiceError("invalid_request", "The body of a call has to be a JSON object.");
}

function answer(response: ServerResponse, value: unknown): void {
  const body = JSON.stringify({ value });
  response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  response.end(body);
}

function fail(response: ServerResponse, error: unknown): void {
  const problem = toProblem(toSluiceError(error));
  if (response.headersSent) return void response.destroy();
  response.writeHead(problem.status, { "content-type": "application/problem+json" });
  response.end(JSON.stringify(problem));
}

/** Codes of a full disk, which somebody can free. Every other error is reported as internal. */
const SHORTAGES = new Set(["ENOSPC", "EDQUOT"]);

function toSluiceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const kind = SHORTAGES.has(code ?? "") ? "storage_full" : "internal";
  return new SluiceError(kind, `On the sandbox's machine: ${message}`, {}, { cause: error });
}
