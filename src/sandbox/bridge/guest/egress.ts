import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { EGRESS_SOCKET, INSIDE_FOLDER, PRESENCE_PATH } from "../ingress.ts";
import { readHead } from "../readHead.ts";
import { splice } from "../splice.ts";

const PATH = `${INSIDE_FOLDER}/${EGRESS_SOCKET}`;
const PATIENCE_MS = 10_000;

/** What a client sends to the proxy's port goes out as it is. */
export async function forwardToProxy(client: Socket): Promise<void> {
  client.on("error", () => client.destroy());
  try {
    splice(client, await reachHost());
  } catch {
    const text = "sluice: the network bridge of this sandbox does not answer.\n";
    client.end(
      `HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
  }
}

/** A connection to a named port of the host. */
export async function tunnelTo(target: string, client: Socket): Promise<void> {
  client.on("error", () => client.destroy());
  let host: Socket | undefined;
  try {
    host = await reachHost();
    host.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`);
    const head = await readHead(host, { mark: "\r\n\r\n", limit: 4_096, timeoutMs: 30_000 });
    if (!head.startsWith("HTTP/1.1 200 ")) throw new Error(head);
    splice(client, host);
  } catch {
    host?.destroy();
    // As if the port were closed, which it is.
    client.resetAndDestroy();
  }
}

/** Lets the host side know that somebody is here, as long as this process lives. */
export async function announce(): Promise<never> {
  for (;;) {
    const socket = await open().catch(() => undefined);
    if (socket !== undefined) {
      socket.write(`GET ${PRESENCE_PATH} HTTP/1.1\r\nHost: sluice\r\n\r\n`);
      socket.on("end", () => socket.destroy());
      await new Promise((gone) => socket.resume().on("close", gone));
    }
    await sleep(1_000);
  }
}

/** The host side may be starting still. */
async function reachHost(): Promise<Socket> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await open();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

function open(): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: PATH, allowHalfOpen: true });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
  });
}
