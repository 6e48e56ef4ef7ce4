import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { createSecureContext, TLSSocket, type SecureContext } from "node:tls";
import { issueCertificate, LEAF_DAYS, type Certified } from "../certificate.ts";
import { splice } from "../splice.ts";
import { answerWith } from "./answer.ts";
import { TLS_HANDSHAKE } from "./clientHello.ts";
import { forwardTo, type ForwardOptions, type Target } from "./forward.ts";
import { peek } from "./peek.ts";
import type { Substitution } from "./substitution.ts";
import { upgradeTo } from "./upgrade.ts";

export interface InterceptorOptions extends ForwardOptions {
  readonly authority: Certified;
}

type Meant = Omit<Target, "path">;

/** Half of what they are good for. */
const REISSUE_MS = (LEAF_DAYS / 2) * 86_400_000;
/** How long a protocol that is not known here waits for what is held back of an answer. */
const IDLE_MS = 50;

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
  async take(
    client: Socket,
    { host, port, socket: upstream, substitution }: Meant & { socket: Socket; substitution: Substitution },
  ): Promise<void> {
    upstream.on("error", () => upstream.destroy());
    const language = await peek<Language>(client, upstream, { decide: toLanguage, otherwise: "other" });
    if (language === "other") {
      return splice(client, upstream, substitution.createStream({ idleMs: IDLE_MS }));
    }
    const isSecure = language === "tls";
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

type Language = "tls" | "http" | "other";

/** By the first character: whoever begins with a letter and is not SSH has to speak HTTP. Servers skip blank lines, so that is done here. */
export function toLanguage(words: Buffer): Language | undefined {
  if (words[0] === TLS_HANDSHAKE) return "tls";
  const text = words.toString("latin1").replace(/^[\r\n\t ]+/, "");
  if (text === "") return words.length > LONGEST_BLANK ? "http" : undefined;
  if (!/^[A-Za-z]/.test(text)) return "other";
  if (text.startsWith("SSH-")) return "other";
  return text.length < 4 && "SSH-".startsWith(text) ? undefined : "http";
}

const LONGEST_BLANK = 1_024;
