import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { createSecureContext, TLSSocket, type SecureContext } from "node:tls";
import { issueCertificate, LEAF_DAYS, type Certified } from "../certificate.ts";
import { parseHostPort, peek, splice } from "../connection.ts";
import { TLS_HANDSHAKE, toServerName } from "./client-hello.ts";
import { forwardTo, type ForwardOptions, type Target } from "./forward.ts";
import type { Substitution } from "./lender.ts";
import { answerRaw, answerWith, noHttp, otherHost, toClientError, toRefusal } from "./refusal.ts";
import { upgradeTo } from "./web-socket.ts";

export interface InterceptorOptions extends ForwardOptions {
  /** Set if secrets are lent to this sandbox. */
  readonly authority?: Certified | undefined;
}

interface Destination extends Omit<Target, "path"> {
  /** Whether a request that names another host is refused; otherwise it goes to this host. */
  readonly isStrict: boolean;
}

interface Taken {
  readonly host: string;
  readonly port: number;
  /** The open connection to this host and port. */
  readonly socket: Socket;
  /** Set for a host that secrets may go to. */
  readonly substitution: Substitution | undefined;
  /** Whether protocols other than TLS and HTTP are allowed. */
  readonly isAnyProtocol: boolean;
}

/** Certificates are reissued after half of their validity. */
const REISSUE_MS = (LEAF_DAYS / 2) * 86_400_000;
/** How long the end of an answer in an unknown protocol may be held back. */
const IDLE_MS = 50;

/**
 * Takes the tunnels of the proxy. Plain HTTP is read request by request, and so is TLS to a host that secrets may go
 * to. Other TLS stays closed, and has to ask for the tunnel's host.
 */
export class Interceptor {
  readonly #options: InterceptorOptions;
  readonly #server: Server;
  readonly #destinations = new WeakMap<object, Destination>();
  readonly #contexts = new Map<string, { readonly context: SecureContext; readonly made: number }>();

  constructor(options: InterceptorOptions) {
    this.#options = options;
    this.#server = createServer({ maxHeaderSize: 32_768, requestTimeout: 0, keepAliveTimeout: 60_000 });
    this.#server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      void answerWith(request, response, async () =>
        forwardTo(this.#targetOf(request), request, response, this.#options),
      );
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      try {
        void upgradeTo(this.#targetOf(request), request, socket, head, this.#options);
      } catch (error) {
        answerRaw(socket, toRefusal(error));
      }
    });
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      if (socket.writable) answerRaw(socket, toClientError(error));
    });
  }

  /** Serves a client in the place of `upstream`. The first bytes decide the protocol. */
  async take(client: Socket, to: Taken): Promise<void> {
    const { host, port, socket: upstream, substitution, isAnyProtocol } = to;
    upstream.on("error", () => upstream.destroy());
    const isLent = substitution !== undefined;
    const protocol = await peek<Protocol>(client, upstream, {
      decide: (bytes) => toProtocol(bytes, isAnyProtocol && !isLent),
      otherwise: "other",
    });
    if (protocol === "other") {
      if (isAnyProtocol) return splice(client, upstream, substitution?.createStream({ idleMs: IDLE_MS }));
      upstream.destroy();
      return answerRaw(client, noHttp(host, port));
    }
    if (protocol === "tls" && !isLent) return joinTls(client, upstream, host);
    const isSecure = protocol === "tls";
    const plain = isSecure ? this.#unwrap(client, host) : client;
    this.#destinations.set(plain, { host, port, isSecure, isStrict: !isLent, socket: upstream });
    client.on("close", () => upstream.destroy());
    this.#server.emit("connection", plain);
  }

  #unwrap(client: Socket, host: string): TLSSocket {
    const secure = new TLSSocket(client, {
      isServer: true,
      secureContext: this.#contextOf(host),
      ALPNProtocols: ["http/1.1"],
    });
    return secure.on("error", () => secure.destroy());
  }

  #contextOf(host: string): SecureContext {
    const known = this.#contexts.get(host);
    if (known !== undefined && Date.now() - known.made < REISSUE_MS) return known.context;
    const context = createSecureContext(issueCertificate(this.#options.authority as Certified, host));
    this.#contexts.set(host, { context, made: Date.now() });
    return context;
  }

  /** The open connection serves the first request; each further one gets its own. */
  #targetOf(request: IncomingMessage): Target {
    const { socket, ...destination } = this.#destinations.get(request.socket) as Destination;
    const { host, port, isStrict } = destination;
    const url = request.url ?? "/";
    const [, authority, rest] = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url) ?? [];
    for (const named of [authority, ...(request.headersDistinct["host"] ?? [])]) {
      if (isStrict && named !== undefined && parseHostPort(named)?.host !== host) {
        throw otherHost(host, port, named);
      }
    }
    this.#destinations.set(request.socket, destination);
    const path = rest ?? url;
    return { ...destination, socket, path: path.startsWith("/") || path === "*" ? path : `/${path}` };
  }
}

/** Joins a TLS client with its server, unless it asks for another one: many sites share an address. */
async function joinTls(client: Socket, upstream: Socket, host: string): Promise<void> {
  const name = await peek(client, upstream, { decide: toServerName, otherwise: "?" });
  if (name === (isIP(host) === 0 ? host : "")) return splice(client, upstream);
  client.end(UNRECOGNIZED_NAME);
  upstream.destroy();
}

/** The fatal TLS alert `unrecognized_name`, which clients name in their error. */
const UNRECOGNIZED_NAME = Buffer.from([0x15, 3, 3, 0, 2, 2, 112]);

type Protocol = "tls" | "http" | "other";

/**
 * The protocol by a client's first bytes; undefined where more have to come. Blank lines are skipped, as servers do. A
 * letter is HTTP, unless it begins `SSH-`. Where any protocol is allowed (`byLine`), the whole first line decides.
 */
function toProtocol(bytes: Buffer, byLine: boolean): Protocol | undefined {
  if (bytes[0] === TLS_HANDSHAKE) return "tls";
  const text = bytes.toString("latin1").replace(/^[\r\n\t ]+/, "");
  if (text === "") return bytes.length > LONGEST_BLANK ? "http" : undefined;
  if (byLine || !/^[A-Za-z]/.test(text)) return toProtocolOfLine(text);
  if (text.startsWith("SSH-")) return "other";
  return text.length < 4 && "SSH-".startsWith(text) ? undefined : "http";
}

/** A request line begins with a word, has the version or a whole URL, and no NUL, which no server takes. */
function toProtocolOfLine(text: string): Protocol | undefined {
  const [line = ""] = text.split("\n", 1);
  if (!/^[!#$%&'*+.^`|~\w-]+(?:[\t\r ]|$)/.test(line) || line.includes("\0")) return "other";
  if (/HTTP\/\d|:\/\//i.test(line)) return "http";
  if (line.length < text.length) return "other";
  return line.length > LONGEST_LINE ? "http" : undefined;
}

const LONGEST_BLANK = 1_024;
/** Longer than the longest request line that is read here. */
const LONGEST_LINE = 32_768;
