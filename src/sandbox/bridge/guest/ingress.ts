import { randomBytes } from "node:crypto";
import { readdirSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { INSIDE_FOLDER, isIngressName, LONGEST_LINE, toIngressName } from "../ingress.ts";
import { readHead } from "../readHead.ts";
import { splice } from "../splice.ts";

/** Lets the host side reach the ports that are open in here. */
export async function serveIngress(): Promise<void> {
  removeForsaken();
  const server = createServer({ allowHalfOpen: true }, (host) => void serve(host));
  server.maxConnections = 512;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(`${INSIDE_FOLDER}/${toIngressName(randomBytes(6).toString("hex"))}`, resolve);
  });
}

async function serve(host: Socket): Promise<void> {
  host.on("error", () => host.destroy());
  try {
    const line = await readHead(host, { mark: "\n", limit: LONGEST_LINE, timeoutMs: 10_000 });
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

/** Servers listen on the one loopback address or on the other. */
async function reach(port: number): Promise<Socket> {
  return open("127.0.0.1", port).catch((error: Error) =>
    open("::1", port).catch(() => Promise.reject(error)),
  );
}

function open(host: string, port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}

/** Sockets that a killed guest left behind refuse whoever comes. */
function removeForsaken(): void {
  for (const name of readdirSync(INSIDE_FOLDER).filter(isIngressName)) {
    const path = `${INSIDE_FOLDER}/${name}`;
    const socket = connect(path);
    socket.on("connect", () => socket.destroy());
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") rmSync(path, { force: true });
    });
  }
}
