import { randomBytes } from "node:crypto";
import { closeSync, openSync, readdirSync, rmSync, writeSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { listen, openConnection, readHead, splice } from "./connection.ts";
import {
  EGRESS_SOCKET,
  INSIDE_FOLDER,
  isIngressName,
  LONGEST_LINE,
  PRESENCE_PATH,
  toIngressName,
  type GuestSettings,
} from "./protocol.ts";

async function main(): Promise<void> {
  const { proxyPort, tunnels } = JSON.parse(process.argv[2] ?? "") as GuestSettings;
  const isFirst = proxyPort === undefined || (await tryListen("127.0.0.1", proxyPort, forwardToProxy));
  const opened = await Promise.all(
    tunnels.map(({ address, port, target }) =>
      tryListen(address, port, (client) => tunnelTo(target, client)),
    ),
  );
  // Another guest of this namespace listens already.
  if (!isFirst && !opened.includes(true)) process.exit(0);
  if (isFirst) await serveIngress().catch(report);
  endOutput();
  if (proxyPort !== undefined) void announce();
}

/** False where the port is taken or the address is missing, as the one of IPv6 may be. Reports any other failure. */
async function tryListen(
  host: string,
  port: number,
  serve: (client: Socket) => Promise<void>,
): Promise<boolean> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => void serve(client));
  server.maxConnections = 1_024;
  try {
    await listen(server, { host, port });
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (!["EADDRINUSE", "EADDRNOTAVAIL", "EAFNOSUPPORT"].includes(code)) report(error);
    return false;
  }
}

function report(error: unknown): void {
  writeSync(1, `sluice: the egress proxy of this sandbox is incomplete: ${(error as Error).message}\n`);
}

/** Ends the output, for which the command waits. Reopens both descriptors, so that no socket gets their numbers. */
function endOutput(): void {
  for (const descriptor of [1, 2]) closeSync(descriptor);
  for (let count = 0; count < 2; count++) openSync("/dev/null", "w");
}

const HOST = { path: `${INSIDE_FOLDER}/${EGRESS_SOCKET}`, allowHalfOpen: true };
const PATIENCE_MS = 10_000;

/** Joins a client of the proxy's port with the egress host. */
async function forwardToProxy(client: Socket): Promise<void> {
  client.on("error", () => client.destroy());
  try {
    splice(client, await reachHost());
  } catch {
    const text = "sluice: the egress proxy of this sandbox does not answer.\n";
    client.end(
      `HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
  }
}

/** Joins a client with an allowed port of this machine, through the egress host. */
async function tunnelTo(target: string, client: Socket): Promise<void> {
  client.on("error", () => client.destroy());
  let host: Socket | undefined;
  try {
    host = await reachHost();
    host.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    const head = await readHead(host, { terminator: "\r\n\r\n", limit: 4_096, timeoutMs: 30_000 });
    if (!head.startsWith("HTTP/1.1 200 ")) throw new Error(head);
    splice(client, host);
  } catch {
    host?.destroy();
    // The client sees a closed port.
    client.resetAndDestroy();
  }
}

/** Keeps a connection to the egress host open, so that it stays while this guest runs. */
async function announce(): Promise<never> {
  for (;;) {
    const socket = await openConnection(HOST).catch(() => undefined);
    if (socket !== undefined) {
      socket.write(`GET ${PRESENCE_PATH} HTTP/1.1\r\nHost: sluice\r\n\r\n`);
      socket.on("end", () => socket.destroy());
      await new Promise((gone) => socket.resume().on("close", gone));
    }
    await sleep(1_000);
  }
}

/** Connects to the egress host, which may still be starting. */
async function reachHost(): Promise<Socket> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await openConnection(HOST);
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

/** Listens for connections from outside to ports in the sandbox. */
async function serveIngress(): Promise<void> {
  removeDeadSockets();
  const server = createServer({ allowHalfOpen: true }, (host) => void serve(host));
  server.maxConnections = 512;
  await listen(server, { path: `${INSIDE_FOLDER}/${toIngressName(randomBytes(6).toString("hex"))}` });
}

async function serve(host: Socket): Promise<void> {
  host.on("error", () => host.destroy());
  try {
    const line = await readHead(host, { terminator: "\n", limit: LONGEST_LINE, timeoutMs: 10_000 });
    const port = /^PORT (\d{1,5})$/.exec(line)?.[1];
    if (port === undefined) throw new Error("the first line names no port");
    const inside = await reach(Number(port));
    if (host.destroyed) return void inside.destroy();
    host.write("OK\n");
    splice(host, inside);
  } catch (error) {
    host.end(`NO ${(error as Error).message.slice(0, 100)}\n`);
  }
}

/** Tries both loopback addresses: a server may listen on only one. */
async function reach(port: number): Promise<Socket> {
  const options = { port, allowHalfOpen: true, noDelay: true };
  return openConnection({ ...options, host: "127.0.0.1" }).catch((error: Error) =>
    openConnection({ ...options, host: "::1" }).catch(() => Promise.reject(error)),
  );
}

/** Removes sockets of killed guests, which refuse every connection. */
function removeDeadSockets(): void {
  for (const name of readdirSync(INSIDE_FOLDER).filter(isIngressName)) {
    const path = `${INSIDE_FOLDER}/${name}`;
    const socket = connect(path);
    socket.on("connect", () => socket.destroy());
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") rmSync(path, { force: true });
    });
  }
}

// Signals to the agent's process group are not meant for the guest. It ends with its namespace.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM", "SIGQUIT"] as const) process.on(signal, () => {});
// Called at the end of the file, when its constants are defined.
await main();
