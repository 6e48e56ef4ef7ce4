import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { makeFolder, onCleanup } from "../remote/workbench.ts";
import { Machines, type EmulatedMachine } from "./machines.ts";

/** What the emulators of vendors share: the server, its faults, and the edge of the machines' ports at /edge/ID/. */
export interface VendorServer {
  readonly url: string;
  readonly machines: Machines;
  /** The headers of each connection to a runner, with the status of the answer. */
  readonly dials: { readonly headers: IncomingMessage["headers"]; readonly admitted: boolean }[];
  cut(): void;
  /** Refuses connections, or answers each request with this status, as an edge does that knows nothing of the API. */
  fail(how: "down" | number | undefined): void;
  /** Makes the next machine, and loses the answer. */
  loseCreation(): void;
  /** What the vendor does at the end of a machine's time. */
  expire(machine: EmulatedMachine): Promise<void>;
}

export interface VendorCall {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  readonly machines: Machines;
  /** Whether the answer to this creation has to be lost. */
  losesAnswer(): boolean;
  answer(status: number, body?: unknown): void;
  readonly response: ServerResponse;
}

export async function startVendor(
  serve: (call: VendorCall, base: string) => Promise<void>,
  admits: (machine: EmulatedMachine, headers: IncomingMessage["headers"]) => boolean,
): Promise<VendorServer> {
  const machines = new Machines(await makeFolder());
  const sockets = new Set<Socket>();
  const dials: VendorServer["dials"] = [];
  let failing: "down" | number | undefined;
  let losesCreation = false;
  const baseOf = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const losesAnswer = (): boolean => {
      const loses = losesCreation;
      losesCreation = false;
      if (loses) response.destroy();
      return loses;
    };
    const answer = (status: number, body?: unknown): void => {
      if (body === undefined) return void response.writeHead(status).end();
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    const url = new URL(request.url ?? "/", baseOf());
    const { method = "GET", headers } = request;
    const call = {
      method,
      url,
      headers,
      body: Buffer.concat(chunks),
      machines,
      losesAnswer,
      answer,
      response,
    };
    await serve(call, baseOf());
  };
  const server = createServer((request, response) => {
    if (typeof failing === "number")
      return void response.writeHead(failing, { "content-type": "text/html" }).end("<h1>oops</h1>");
    handle(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  server.on("connection", (socket: Socket) => {
    if (failing === "down") return void socket.destroy();
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
  });
  server.on("upgrade", (request, socket: Socket, head: Buffer) => {
    const [, id = "", path = "/"] = /^\/edge\/([^/]+)(\/.*)$/.exec(request.url ?? "") ?? [];
    const machine = machines.get(id);
    const isUp = machine?.state === "running" && typeof failing !== "number";
    const admitted = isUp && admits(machine, request.headers);
    dials.push({ headers: request.headers, admitted });
    if (!machine || !admitted) return void socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    const far = connect(machine.port, "127.0.0.1");
    far.on("connect", () => {
      const lines = [`${request.method} ${path} HTTP/1.1`];
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
  return {
    url: baseOf(),
    machines,
    dials,
    cut,
    fail: (how) => {
      failing = how;
      if (how === "down") cut();
    },
    loseCreation: () => void (losesCreation = true),
    expire: (machine) => machines.stop(machine),
  };
}

/** Runs a command of a machine to its end. */
export async function runOn(
  machines: Machines,
  machine: EmulatedMachine,
  argv: readonly string[],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = machines.spawn(machine, argv);
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code: code ?? -1, stdout, stderr };
}
