import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { pipeline } from "node:stream";
import { connectTo } from "./public-fetch.ts";

export interface PublicProxy {
  /** With the password that it asks for. */
  readonly url: string;
  close(): Promise<void>;
}

const CHALLENGE = { "proxy-authenticate": 'Basic realm="sluice"' };

/**
 * A way to the internet for a program that dials by itself, such as git: every connection, those of redirects too, is
 * made here and checked here. What is refused and what is not there are answered alike.
 */
export async function openPublicProxy(): Promise<PublicProxy> {
  const password = randomBytes(24).toString("hex");
  const expected = `Basic ${Buffer.from(`sluice:${password}`).toString("base64")}`;
  const isOurs = ({ headers }: IncomingMessage): boolean => headers["proxy-authorization"] === expected;
  const server = createServer((incoming, outgoing) => {
    if (!isOurs(incoming)) return void outgoing.writeHead(407, CHALLENGE).end();
    forward(incoming, outgoing).catch(() => {
      if (!outgoing.headersSent) outgoing.writeHead(502);
      outgoing.end();
    });
  });
  const tunnels = new Set<Socket>();
  server.on("connect", (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    if (!isOurs(incoming))
      return void socket.end(
        `HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: ${CHALLENGE["proxy-authenticate"]}\r\n\r\n`,
      );
    tunnel(incoming, socket, head).then(
      (far) => {
        for (const side of [far, socket]) {
          tunnels.add(side);
          side.once("close", () => tunnels.delete(side));
        }
      },
      () => socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n"),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://sluice:${password}@127.0.0.1:${port}`,
    async close() {
      for (const socket of tunnels) socket.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function tunnel({ url = "" }: IncomingMessage, socket: Socket, head: Buffer): Promise<Socket> {
  // Its bytes are the two ends' own business: TCP, not TLS, is what this side speaks.
  const { hostname, port } = new URL(`http://${url}`);
  const far = await connectTo(new URL(`http://${hostname}:${port || 443}`));
  far.on("error", () => socket.destroy());
  socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
  far.write(head);
  pipeline(far, socket, () => {});
  pipeline(socket, far, () => {});
  return far;
}

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const url = new URL(incoming.url ?? "");
  if (url.protocol !== "http:") return void outgoing.writeHead(502).end();
  const socket = await connectTo(url);
  const { "proxy-authorization": _, "proxy-connection": __, connection: ___, ...headers } = incoming.headers;
  const sent = request({
    createConnection: () => socket,
    method: incoming.method,
    path: url.pathname + url.search,
    headers: { ...headers, host: url.host, connection: "close" },
  });
  outgoing.once("close", () => sent.destroy());
  pipeline(incoming, sent, () => {});
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  const { connection: ____, "keep-alive": _____, ...passed } = answer.headers;
  outgoing.writeHead(answer.statusCode ?? 502, passed);
  pipeline(answer, outgoing, () => {});
}
