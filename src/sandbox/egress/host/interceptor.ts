import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createSecureContext, TLSSocket, type SecureContext } from "node:tls";
import { issueCertificate, LEAF_DAYS, type Certified } from "../certificate.ts";
import { peek, splice } from "../connection.ts";
import { TLS_HANDSHAKE } from "./client-hello.ts";
import { forwardTo, type ForwardOptions, type Target } from "./forward.ts";
import type { Substitution } from "./lender.ts";
import { answerWith } from "./refusal.ts";
import { upgradeTo } from "./web-socket.ts";

interface InterceptorOptions extends ForwardOptions {
  readonly authority: Certified;
}

type Destination = Omit<Target, "path">;

/** Certificates are reissued after half of their validity. */
const REISSUE_MS = (LEAF_DAYS / 2) * 86_400_000;
/** How long the end of an answer in an unknown protocol may be held back. */
const IDLE_MS = 50;

/** Takes connections to hosts that secrets may go to, and reads their HTTP requests, with TLS or without. */
export class Interceptor {
  readonly #options: InterceptorOptions;
  readonly #server: Server;
  readonly #destinations = new WeakMap<object, Destination>();
  readonly #contexts = new Map<string, { readonly context: SecureContext; readonly made: number }>();

  constructor(options: InterceptorOptions) {
    this.#options = options;
    this.#server = createServer({ maxHeaderSize: 32_768, requestTimeout: 0, keepAliveTimeout: 60_000 });
    this.#server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      void answerWith(request, response, () =>
        forwardTo(this.#targetOf(request), request, response, this.#options),
      );
    });
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      void upgradeTo(this.#targetOf(request), request, socket, head, this.#options);
    });
  }

  /** Serves a client in the place of `upstream`. The first bytes decide the protocol. */
  async take(
    client: Socket,
    to: Destination & { socket: Socket; substitution: Substitution },
  ): Promise<void> {
    const { host, port, socket: upstream, substitution } = to;
    upstream.on("error", () => upstream.destroy());
    const protocol = await peek<Protocol>(client, upstream, { decide: toProtocol, otherwise: "other" });
    if (protocol === "other") {
      return splice(client, upstream, substitution.createStream({ idleMs: IDLE_MS }));
    }
    const isSecure = protocol === "tls";
    const plain = isSecure ? this.#unwrap(client, host) : client;
    this.#destinations.set(plain, { host, port, isSecure, socket: upstream });
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
    const context = createSecureContext(issueCertificate(this.#options.authority, host));
    this.#contexts.set(host, { context, made: Date.now() });
    return context;
  }

  /** The open connection serves the first request; each further one gets its own. */
  #targetOf(request: IncomingMessage): Target {
    const { socket, ...destination } = this.#destinations.get(request.socket) as Destination;
    this.#destinations.set(request.socket, destination);
    const url = request.url ?? "/";
    const path = /^https?:\/\/[^/?#]*(.*)$/i.exec(url)?.[1] ?? url;
    return { ...destination, socket, path: path.startsWith("/") || path === "*" ? path : `/${path}` };
  }
}

type Protocol = "tls" | "http" | "other";

/**
 * The protocol by a client's first character: a letter is HTTP, unless it begins `SSH-`. Blank lines before it are
 * skipped, as servers do; undefined where more bytes have to come.
 */
function toProtocol(bytes: Buffer): Protocol | undefined {
  if (bytes[0] === TLS_HANDSHAKE) return "tls";
  const text = bytes.toString("latin1").replace(/^[\r\n\t ]+/, "");
  if (text === "") return bytes.length > LONGEST_BLANK ? "http" : undefined;
  if (!/^[A-Za-z]/.test(text)) return "other";
  if (text.startsWith("SSH-")) return "other";
  return text.length < 4 && "SSH-".startsWith(text) ? undefined : "http";
}

const LONGEST_BLANK = 1_024;
