import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { makeFolder, onCleanup } from "../remote/workbench.ts";
import { Machines, type EmulatedMachine } from "./machines.ts";

/**
 * The API of E2B as its SDK 2.51.0 uses it: sandboxes, the calls of envd for files and processes, and the edge of a
 * machine's ports. It proves our calls, not their service.
 */
export interface E2bEmulator {
  readonly url: string;
  readonly key: string;
  /** The settings of the provider. */
  readonly env: Record<string, string>;
  readonly machines: Machines;
  /** Requests of the API, as `METHOD /path`. */
  readonly requests: string[];
  /** The headers of each connection to a runner, with the status of the answer. */
  readonly dials: { readonly headers: IncomingMessage["headers"]; readonly admitted: boolean }[];
  /** Cuts every connection. */
  cut(): void;
  /** Refuses connections, or answers each request with this status, as an edge does that knows nothing of the API. */
  fail(how: "down" | number | undefined): void;
  /** Makes the next machine, and loses the answer. */
  loseCreation(): void;
  /** What the vendor does at the end of a machine's time. */
  expire(machine: EmulatedMachine): void;
}

interface Tokens {
  readonly envd: string;
  readonly traffic: string;
}

const ENVD = "0.6.4";

export async function startE2b(): Promise<E2bEmulator> {
  const key = `e2b_${randomBytes(20).toString("hex")}`;
  const machines = new Machines(await makeFolder());
  const tokens = new Map<string, Tokens>();
  const sockets = new Set<Duplex>();
  const requests: string[] = [];
  const dials: E2bEmulator["dials"] = [];
  let failing: "down" | number | undefined;
  let losesCreation = false;

  const toAnswer = (machine: EmulatedMachine): object => ({
    sandboxID: machine.id,
    templateID: machine.request["templateID"],
    clientID: "emulator",
    envdVersion: ENVD,
    envdAccessToken: tokens.get(machine.id)?.envd,
    trafficAccessToken: tokens.get(machine.id)?.traffic,
  });
  const toInfo = (machine: EmulatedMachine): object => ({
    ...toAnswer(machine),
    startedAt: new Date().toISOString(),
    endAt: new Date(Date.now() + 1_000_000).toISOString(),
    state: machine.state,
    cpuCount: 2,
    memoryMB: 512,
    metadata: machine.metadata,
  });

  const api = async (request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> => {
    requests.push(`${request.method} ${url.pathname}`);
    if (request.headers["x-api-key"] !== key)
      return answer(response, 401, { code: 401, message: "unauthorized" });
    const [, id, action] = /^(?:\/v2)?\/sandboxes(?:\/([^/]+)(?:\/(\w+))?)?$/.exec(url.pathname) ?? [];
    const body = JSON.parse((await readAll(request)).toString() || "{}") as Record<string, unknown>;
    if (id === undefined && request.method === "POST") {
      if (body["templateID"] === "missing")
        return answer(response, 404, { code: 404, message: "template 'missing' not found" });
      const machine = await machines.create((body["metadata"] ?? {}) as Record<string, string>, body);
      tokens.set(machine.id, {
        envd: randomBytes(16).toString("hex"),
        traffic: randomBytes(16).toString("hex"),
      });
      if (losesCreation) return ((losesCreation = false), void response.destroy());
      return answer(response, 201, toAnswer(machine));
    }
    if (id === undefined) {
      const wanted = [...new URLSearchParams(url.searchParams.get("metadata") ?? "")].map((pair) =>
        pair.map(decodeURIComponent),
      );
      const found = machines
        .all()
        .filter(({ metadata }) => wanted.every(([name = "", value]) => metadata[name] === value));
      return answer(response, 200, found.map(toInfo));
    }
    const machine = machines.get(id);
    if (!machine) return answer(response, 404, { code: 404, message: `sandbox ${id} not found` });
    if (request.method === "DELETE") {
      await machines.remove(id);
      return answer(response, 204);
    }
    if (action === "connect") machines.resume(machine);
    if (action === "connect") return answer(response, 200, toAnswer(machine));
    if (action === "timeout" && machine.state === "paused")
      return answer(response, 404, { code: 404, message: `sandbox ${id} is not running` });
    if (action === "timeout") return answer(response, 204);
    if (action === "pause" && machine.state === "paused")
      return answer(response, 409, { code: 409, message: "already paused" });
    if (action === "pause") {
      expire(machine);
      return answer(response, 204);
    }
    return answer(response, 200, toInfo(machine));
  };

  const expire = (machine: EmulatedMachine): void => {
    machines.pause(machine);
    for (const socket of sockets)
      if ((socket as { machine?: string }).machine === machine.id) socket.destroy();
  };

  const reached = (request: IncomingMessage): EmulatedMachine | undefined => {
    const machine = machines.get(String(request.headers["e2b-sandbox-id"]));
    return machine?.state === "running" ? machine : undefined;
  };

  const envd = async (request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> => {
    const machine = reached(request);
    if (!machine) return answer(response, 502, { code: 502, message: "The sandbox was not found" });
    if (request.headers["x-access-token"] !== tokens.get(machine.id)?.envd)
      return answer(response, 401, { code: 401, message: "bad access token" });
    if (url.pathname === "/health") return answer(response, 204);
    if (url.pathname === "/files") {
      const path = url.searchParams.get("path") ?? "";
      machines.write(machine, path, partOf(request, await readAll(request)));
      return answer(response, 200, [{ name: path, path, type: "file" }]);
    }
    if (url.pathname === "/process.Process/Start") return runProcess(machines, machine, request, response);
    answer(response, 404, { code: 404, message: "no such call" });
  };

  const server = createServer((request, response) => {
    if (typeof failing === "number")
      return void response.writeHead(failing, { "content-type": "text/html" }).end("<h1>oops</h1>");
    const url = new URL(request.url ?? "/", "http://emulator");
    const serve = request.headers["e2b-sandbox-id"] === undefined ? api : envd;
    serve(request, response, url).catch((error: unknown) =>
      answer(response, 500, { code: 500, message: String(error) }),
    );
  });
  server.on("connection", (socket: Socket) => {
    if (failing === "down") return void socket.destroy();
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  // The edge of the machines' ports.
  server.on("upgrade", (request, socket: Socket, head: Buffer) => {
    const machine = reached(request);
    const admitted =
      machine !== undefined &&
      typeof failing !== "number" &&
      request.headers["e2b-traffic-access-token"] === tokens.get(machine.id)?.traffic;
    dials.push({ headers: request.headers, admitted });
    if (!machine || !admitted) return void socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    (socket as { machine?: string }).machine = machine.id;
    const far = connect(machine.port, "127.0.0.1");
    far.on("connect", () => {
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (let at = 0; at < request.rawHeaders.length; at += 2)
        lines.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}`);
      far.write(`${lines.join("\r\n")}\r\n\r\n`);
      if (head.length > 0) far.write(head);
      socket.pipe(far).pipe(socket);
    });
    far.on("error", () => socket.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"));
    far.on("close", () => socket.destroy());
    socket.on("close", () => far.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  onCleanup(async () => {
    cut();
    server.close();
    await machines.dispose();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    key,
    env: { E2B_API_KEY: key, E2B_API_URL: url, E2B_SANDBOX_URL: url },
    machines,
    requests,
    dials,
    cut,
    fail: (how) => {
      failing = how;
      if (how === "down") cut();
    },
    loseCreation: () => void (losesCreation = true),
    expire,
  };
}

/** A server stream of Connect, as JSON: frames of a flag, a length and a text. */
async function runProcess(
  machines: Machines,
  machine: EmulatedMachine,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const given = JSON.parse((await readAll(request)).subarray(5).toString()) as {
    process: { cmd: string; args: string[] };
  };
  const child = machines.spawn(machine, [given.process.cmd, ...given.process.args]);
  response.writeHead(200, { "content-type": "application/connect+json" });
  const send = (flag: number, value: object): void => {
    const text = Buffer.from(JSON.stringify(value));
    const head = Buffer.alloc(5);
    head[0] = flag;
    head.writeUInt32BE(text.length, 1);
    response.write(Buffer.concat([head, text]));
  };
  send(0, { event: { start: { pid: child.pid } } });
  for (const name of ["stdout", "stderr"] as const)
    child[name]?.on("data", (chunk: Buffer) =>
      send(0, { event: { data: { [name]: chunk.toString("base64") } } }),
    );
  child.on("close", (code) => {
    send(0, { event: { end: { exitCode: code ?? -1, exited: true, status: `exit status ${code}` } } });
    send(2, {});
    response.end();
  });
}

/** The one file of a multipart form, or the whole body. */
function partOf({ headers }: IncomingMessage, body: Buffer): Buffer {
  const boundary = /boundary=(.+)$/.exec(headers["content-type"] ?? "")?.[1];
  if (boundary === undefined) return body;
  const begin = body.indexOf("\r\n\r\n") + 4;
  return body.subarray(begin, body.lastIndexOf(`\r\n--${boundary}`));
}

async function readAll(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function answer(response: ServerResponse, status: number, body?: unknown): void {
  if (body === undefined) return void response.writeHead(status).end();
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
