import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { isLoopbackHost } from "../hostPort.ts";
import { readHead } from "../readHead.ts";

export interface Target {
  readonly host: string;
  readonly port: number;
  /** Present for https. */
  readonly tls?: ConnectionOptions;
}

/** A connection as Node would make it, but through the proxy; loopback stays inside. */
export async function openConnection(target: Target, proxy: URL): Promise<Socket> {
  const socket = await open(
    isLoopbackHost(target.host) ? target : { host: proxy.hostname, port: Number(proxy.port) },
  );
  if (!isLoopbackHost(target.host)) await askFor(target, socket);
  if (target.tls === undefined) return socket;
  const secure = connectTls({ ...target.tls, socket });
  return new Promise((resolve, reject) => {
    secure.once("error", reject).once("secureConnect", () => resolve(secure.off("error", reject)));
  });
}

async function askFor({ host, port }: Target, socket: Socket): Promise<void> {
  const authority = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  const head = await readHead(socket, { mark: "\r\n\r\n", limit: 4_096, timeoutMs: 60_000 });
  if (head.startsWith("HTTP/1.1 200 ")) return;
  const text = String(socket.read() ?? "").trim();
  socket.destroy();
  throw new Error(text === "" ? `the proxy answered ${head.split("\r\n")[0]}` : text);
}

function open({ host, port }: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host, port, noDelay: true });
    socket.once("error", reject).once("connect", () => resolve(socket.off("error", reject)));
  });
}
