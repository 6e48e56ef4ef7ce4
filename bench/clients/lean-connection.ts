import { once } from "node:events";
import { connect, type Socket } from "node:net";

const END_OF_HEAD = Buffer.from("\r\n\r\n");

/**
 * A keep-alive connection that costs the client next to nothing, so that only the server is measured. Requests are
 * written verbatim, and of a response only the status and the end are parsed.
 */
export class LeanConnection {
  readonly #socket: Socket;
  readonly #host: string;
  #received: Buffer = Buffer.alloc(0);
  #waiting: { resolve: (text: string) => void; reject: (error: Error) => void } | undefined;

  private constructor(socket: Socket, host: string) {
    this.#socket = socket;
    this.#host = host;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", (error) => this.#waiting?.reject(error));
    socket.on("close", () => this.#waiting?.reject(new Error("the connection was closed")));
  }

  static async open(url: string): Promise<LeanConnection> {
    const { host } = new URL(url);
    return new LeanConnection(await dial(url), host);
  }

  get(path: string): Promise<string> {
    return this.#send(`GET ${path} HTTP/1.1\r\nhost: ${this.#host}\r\n\r\n`);
  }

  post(path: string, body: string): Promise<string> {
    const length = Buffer.byteLength(body);
    return this.#send(
      `POST ${path} HTTP/1.1\r\nhost: ${this.#host}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n${body}`,
    );
  }

  close(): void {
    this.#waiting = undefined;
    this.#socket.destroy();
  }

  #send(request: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(request);
    });
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const head = this.#received.indexOf(END_OF_HEAD);
    if (head === -1) return;
    const headers = this.#received.toString("latin1", 0, head);
    const body = this.#received.subarray(head + END_OF_HEAD.length);
    const length = /\r\ncontent-length: (\d+)/i.exec(headers)?.[1];
    const isWhole =
      length === undefined
        ? body.includes("\r\n0\r\n\r\n") || body.length === 0
        : body.length >= Number(length);
    if (!isWhole) return;
    const text = body.toString();
    this.#received = Buffer.alloc(0);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (headers.startsWith("HTTP/1.1 2")) waiting?.resolve(text);
    else waiting?.reject(new Error(`${headers.split("\r\n", 1)[0]} ${text.slice(0, 300)}`));
  }
}

/** An event stream as raw bytes, chunk headers included. Resolves at its first byte. */
export async function openLeanStream(
  url: string,
  headers: Readonly<Record<string, string>>,
  onChunk: (chunk: Buffer) => void,
): Promise<{ close(): void }> {
  const { host, pathname, search } = new URL(url);
  const socket = await dial(url);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\nhost: ${host}\r\n${lines.join("")}\r\n`);
  const [first] = (await once(socket, "data")) as [Buffer];
  if (!first.toString("latin1", 0, 16).startsWith("HTTP/1.1 200"))
    throw new Error(`${url}: ${first.toString("latin1", 0, 300)}`);
  socket.on("data", onChunk);
  return { close: () => void socket.destroy() };
}

async function dial(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, "connect");
  return socket;
}
