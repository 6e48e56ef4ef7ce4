import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createSecureContext, TLSSocket, type SecureContext } from "node:tls";
import { issueCertificate, LEAF_DAYS, type Certified } from "../certificate.ts";
import { splice } from "../splice.ts";
import { answerWith } from "./answer.ts";
import { forwardTo, type ForwardOptions, type Target } from "./forward.ts";
import { upgradeTo } from "./upgrade.ts";

export interface InterceptorOptions extends ForwardOptions {
  readonly authority: Certified;
}

type Meant = Omit<Target, "path">;

/** Half of what they are good for. */
const REISSUE_MS = (LEAF_DAYS / 2) * 86_400_000;
const TLS_HANDSHAKE = 0x16;

/** Stands in for a host that secrets may go to: what is sent to it by HTTP, with TLS or without, is read here first. */
export class Interceptor {
  readonly #options: InterceptorOptions;
  readonly #server: Server;
  readonly #meant = new WeakMap<object, Meant>();
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

  /** `client` believes to talk to `upstream`. Who speaks first, and how, tells what is spoken. */
  async take(client: Socket, { host, port, socket: upstream }: Meant & { socket: Socket }): Promise<void> {
    upstream.on("error", () => upstream.destroy());
    const first = await firstWords(client, upstream);
    const isSecure = first?.[0] === TLS_HANDSHAKE;
    if (!isSecure && !/^[A-Z]{3,}[ ]/.test(first?.toString("latin1", 0, 16) ?? ""))
      return splice(client, upstream);
    const spoken = isSecure ? this.#unwrap(client, host) : client;
    this.#meant.set(spoken, { host, port, isSecure, socket: upstream });
    client.on("close", () => upstream.destroy());
    this.#server.emit("connection", spoken);
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

  /** The open connection serves the first request; each other one gets its own. */
  #targetOf(request: IncomingMessage): Target {
    const { socket, ...meant } = this.#meant.get(request.socket) as Meant;
    this.#meant.set(request.socket, meant);
    const url = request.url ?? "/";
    const path = /^https?:\/\/[^/?#]*(.*)$/i.exec(url)?.[1] ?? url;
    return { ...meant, socket, path: path.startsWith("/") || path === "*" ? path : `/${path}` };
  }
}

/** What the client says first, still to be read; undefined where the other side was faster, or somebody left. */
function firstWords(client: Socket, server: Socket): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const finish = (words?: Buffer): void => {
      client.off("readable", look).off("end", leave).off("close", leave);
      server.off("readable", hear).off("end", leave).off("close", leave);
      resolve(words);
    };
    const look = (): void => {
      const words = client.read() as Buffer | null;
      if (words === null) return;
      finish(words);
      client.unshift(words);
    };
    const hear = (): void => {
      if (server.readableLength > 0) finish();
    };
    const leave = (): void => finish();
    client.on("readable", look).on("end", leave).on("close", leave);
    server.on("readable", hear).on("end", leave).on("close", leave);
    look();
  });
}
