import { constants, type Dirent } from "node:fs";
import { open, opendir, rm } from "node:fs/promises";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { SluiceError } from "../../contract/errors.ts";
import { listen, openConnection, readHead, splice } from "./connection.ts";
import { isIngressName, LONGEST_LINE } from "./protocol.ts";

export interface OpenPort {
  readonly url: URL;
  /** Closes the listener and every connection through it. */
  close(): Promise<void>;
}

/** Makes a port that is open inside a sandbox reachable on this host's loopback. The port itself may open later. */
export async function openPort({ folder, port }: { folder: string; port: number }): Promise<OpenPort> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new SluiceError("invalid_request", `${port} is no port; give a number from 1 to 65535.`, { port });
  }
  const clients = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    clients.add(client);
    client.on("error", () => client.destroy()).on("close", () => clients.delete(client));
    serve(client, folder, port).catch(() => client.destroy());
  });
  server.maxConnections = 512;
  await listen(server, { host: "127.0.0.1", port: 0 });
  // An open port does not keep this process alive.
  server.unref();
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const client of clients) client.destroy();
      }),
  };
}

async function serve(client: Socket, folder: string, port: number): Promise<void> {
  const failures: string[] = [];
  for (const name of await listIngress(folder)) {
    if (client.destroyed) return;
    try {
      return splice(client, await ask(join(folder, name), port));
    } catch (error) {
      failures.push((error as Error).message);
    }
  }
  const why = failures.at(-1) ?? "no process of the sandbox is running";
  const text = `sluice: nothing answers on port ${port} inside the sandbox: ${why}.\n`;
  client.end(
    `HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

/** The agent can write in the folder, so only a limited number of entries is read, and none is trusted. */
async function listIngress(folder: string): Promise<string[]> {
  const names: string[] = [];
  const entries = await opendir(folder).catch(() => undefined);
  if (entries === undefined) return names;
  let seen = 0;
  for await (const entry of entries as AsyncIterable<Dirent>) {
    if (entry.isSocket() && isIngressName(entry.name)) names.push(entry.name);
    if (++seen >= 1_024 || names.length >= 64) break;
  }
  return names;
}

async function ask(path: string, port: number): Promise<Socket> {
  const socket = await connectWithin(path);
  try {
    socket.write(`PORT ${port}\n`);
    const line = await readHead(socket, { terminator: "\n", limit: LONGEST_LINE, timeoutMs: 10_000 });
    if (line !== "OK") throw new Error(line.replace(/^NO /, "").replace(/[^\x20-\x7e]/g, "?"));
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Connects to a socket, but never through a symbolic link: an agent could point it at a socket of the host. */
async function connectWithin(path: string): Promise<Socket> {
  const O_PATH = 0o10000000;
  const handle = await open(path, O_PATH | constants.O_NOFOLLOW);
  try {
    if (!(await handle.stat()).isSocket()) throw new Error("the way in is no socket");
    // The path through the descriptor leads to the checked file itself, and is short enough for a socket.
    return await openConnection({ path: `/proc/self/fd/${handle.fd}`, allowHalfOpen: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ECONNREFUSED") await rm(path, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}
