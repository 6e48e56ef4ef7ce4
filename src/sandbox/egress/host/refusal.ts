import type { IncomingMessage, ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { isLoopbackHost, toAuthority } from "../connection.ts";

/** An answer of the proxy's own, in words that an agent and a person can act on. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.name = "Refusal";
    this.status = status;
  }
}

export function notAllowed(host: string, port: number): Refusal {
  return new Refusal(
    403,
    `sluice: this sandbox may not reach ${toAuthority(host, port)}: the host is not in the session's allow list.\n` +
      `To allow it, create the session with ${example(host)}, or name it ${JSON.stringify(toAuthority(host, port))} to allow this port alone.\n`,
  );
}

export function inPrivateNetwork(host: string, port: number, found: string): Refusal {
  const authority = toAuthority(host, port);
  const isAddress = isIP(host) !== 0 || isLoopbackHost(host);
  const remedy = isAddress
    ? `To allow it all the same, name it with its port: create the session with ${example(authority)}.\n`
    : `To allow it all the same, create the session with ${JSON.stringify({ network: { allow: [authority], private: [host] } })}, or the server with SLUICE_PRIVATE_HOSTS=${host}.\n`;
  const text = `sluice: this sandbox may not reach ${authority}: it lies in the network of the machine that runs sluice (${found}).\n${remedy}`;
  return new Refusal(403, text);
}

export function neverReachable(host: string, port: number, found: string): Refusal {
  return new Refusal(
    403,
    `sluice: this sandbox may not reach ${toAuthority(host, port)}: no name may stand for such an address (${found}).\n` +
      "Where it is meant, the session's allow list has to name the address itself, with its port.\n",
  );
}

export function onlyByName(host: string, port: number): Refusal {
  const text = `sluice: this sandbox may not reach ${toAuthority(host, port)} by its address: it belongs to a host that secrets may go to. Use the host's name.\n`;
  return new Refusal(403, text);
}

/** For a request in a tunnel that names another site on the same address. */
export function otherHost(host: string, port: number, named: string): Refusal {
  const text = `sluice: this connection was opened to ${toAuthority(host, port)}, and the request on it asks for ${JSON.stringify(named.slice(0, 200))}. Open a connection to that host instead.\n`;
  return new Refusal(403, text);
}

export function noHttp(host: string, port: number): Refusal {
  const authority = toAuthority(host, port);
  return new Refusal(
    403,
    `sluice: this sandbox may reach ${authority} by HTTP and TLS only, and this connection is neither.\n` +
      `To allow any protocol there, name the port: create the session with ${example(authority)}.\n`,
  );
}

export function unreachable(host: string, port: number, why: string): Refusal {
  return new Refusal(502, `sluice: ${toAuthority(host, port)} is allowed but could not be reached: ${why}\n`);
}

function example(host: string): string {
  return JSON.stringify({ network: { allow: [host] } });
}

/** Runs the answer to a request; on a failure the proxy answers with the reason. */
export async function answerWith(
  request: IncomingMessage,
  response: ServerResponse,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (response.headersSent || response.destroyed) return void response.destroy();
    const { status, message } = toRefusal(error);
    response.writeHead(status, { ...EXPLAINED, "content-length": Buffer.byteLength(message) });
    response.end(message);
    // The rest of the client's body is dropped.
    request.resume();
  }
}

/** Answers on a connection without a parsed request, and closes it. */
export function answerRaw(socket: Socket, { status, message }: Refusal): void {
  if (socket.destroyed) return;
  socket.on("error", () => socket.destroy());
  const head = [`HTTP/1.1 ${status} ${REASONS[status] ?? "Refused"}`, "Connection: close"];
  for (const [name, value] of Object.entries(EXPLAINED)) head.push(`${name}: ${value}`);
  head.push(`Content-Length: ${Buffer.byteLength(message)}`, "", message);
  socket.end(head.join("\r\n"), () => socket.destroySoon());
}

export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(502, `sluice: the connection failed: ${(error as Error).message}\n`);
}

export function toClientError(error: NodeJS.ErrnoException): Refusal {
  if (error.code === "HPE_HEADER_OVERFLOW") {
    return new Refusal(431, "sluice: the request's headers are larger than 32 KB.\n");
  }
  const text = `sluice: this is no HTTP request that the proxy understands (${error.code ?? error.message}).\n`;
  return new Refusal(400, text);
}

const EXPLAINED = { "content-type": "text/plain; charset=utf-8", "sluice-egress": "refused" };

const REASONS: Record<number, string> = {
  400: "Bad Request",
  403: "Forbidden",
  431: "Request Header Fields Too Large",
  502: "Bad Gateway",
  503: "Service Unavailable",
};
