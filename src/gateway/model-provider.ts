import { Agent, type ClientRequestArgs, type IncomingMessage, request as startRequest } from "node:http";
import { isIP, type Socket } from "node:net";
import { Readable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { callbackify } from "node:util";
import type { ModelRoute } from "../contract/process.ts";
import { Authorizer } from "./credential.ts";
import type { Desk } from "./desk.ts";
import type { Answer, Answerer, Exchange } from "./forward.ts";
import { fromProvider, type Headers } from "./headers.ts";
import type { Call } from "./paths.ts";
import { Refusal } from "./refusal.ts";

/** Opens a plain connection to a host whose address was checked. */
export type Dial = (host: string, port: number) => Promise<Socket>;

const TOKEN_MS = 20_000;
/** The most bytes of a provider's error. */
const LONGEST_ERROR = 1024 * 1024;

/** Answers with the model provider itself, and its key from the desk. */
export function createProvider(options: { desk: Desk; dial: Dial }): Answerer {
  const agents = new Map<string, Agent>();
  const agentOf = (url: string): Agent => {
    const { origin } = new URL(url);
    const agent = agents.get(origin) ?? new DialAgent(new URL(origin), options.dial);
    agents.set(origin, agent);
    return agent;
  };
  const authorizer = new Authorizer((url, form) => postForm(url, form, agentOf(url)));
  return {
    async answer(exchange, { signal }) {
      const { route } = exchange.call;
      const key = (await options.desk.read())?.keys[route.id];
      if (key === undefined) throw noKey(route);
      const { method, body } = exchange;
      const { origin } = new URL(route.upstream);
      const url = `${origin}${toPath(exchange.call)}`;
      const authorization = await authorizer.of(route, key, { method, url, body });
      const headers = { ...exchange.headers, ...authorization.headers };
      const answer = await send(exchange, { headers, agent: agentOf(route.upstream), signal });
      return toAnswer(answer, authorization.secrets);
    },
  };
}

function noKey({ provider }: ModelRoute): Refusal {
  const text = `sluice: the key of ${provider} is not there now: the server that has it does not answer. Try again when it runs.`;
  return new Refusal(503, "no_key", text, 2);
}

/** The whole path of a request at the provider. */
function toPath({ route, path }: Call): string {
  const { pathname } = new URL(route.upstream);
  return withQuery(`${pathname.replace(/\/+$/, "")}${path}`, route);
}

/** Asks a token endpoint, by a checked address like the provider's. */
async function postForm(url: string, form: string, agent: Agent): Promise<{ status: number; text: string }> {
  const { pathname, search, host } = new URL(url);
  const headers = {
    host,
    "content-type": "application/x-www-form-urlencoded",
    "content-length": String(Buffer.byteLength(form)),
  };
  const signal = AbortSignal.timeout(TOKEN_MS);
  const options = { method: "POST", path: `${pathname}${search}`, headers, agent, setHost: false, signal };
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    startRequest(options).on("response", resolve).on("error", reject).end(form);
  });
  return { status: answer.statusCode ?? 502, text: (await readError(answer)).toString("utf8") };
}

interface SendOptions {
  readonly headers: Headers;
  readonly agent: Agent;
  readonly signal: AbortSignal;
}

/** Sends the request; again if the provider closed a kept connection meanwhile, and so has not read it. */
async function send(exchange: Exchange, options: SendOptions): Promise<IncomingMessage> {
  try {
    return await sendOnce(exchange, options);
  } catch (error) {
    if (!(error instanceof StaleConnection) || options.signal.aborted) throw error;
    return sendOnce(exchange, options);
  }
}

class StaleConnection extends Error {}

function sendOnce({ call, method, body }: Exchange, options: SendOptions): Promise<IncomingMessage> {
  const { host } = new URL(call.route.upstream);
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Promise((resolve, reject) => {
    const outgoing = startRequest({
      method,
      path: toPath(call),
      headers: {
        ...(options.headers as Record<string, string[]>),
        host,
        ...(hasBody ? { "content-length": String(body.length) } : {}),
      },
      agent: options.agent,
      setHost: false,
      maxHeaderSize: 65_536,
      signal: options.signal,
    });
    outgoing.on("response", resolve);
    outgoing.on("upgrade", (_answer, socket: Socket) => {
      socket.destroy();
      reject(new Error("the provider changed the protocol"));
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      const isStale = outgoing.reusedSocket && ["ECONNRESET", "EPIPE"].includes(error.code ?? "");
      reject(isStale ? new StaleConnection(error.message) : error);
    });
    outgoing.end(hasBody ? body : undefined);
  });
}

/** The path with the route's own query, which precedes the agent's. */
function withQuery(path: string, { query }: ModelRoute): string {
  if (query === undefined) return path;
  const [plain = "", given = ""] = path.split("?", 2);
  const kept = given
    .split("&")
    .filter((part) => part !== "" && !Object.hasOwn(query, part.split("=", 1)[0] ?? ""));
  return `${plain}?${[new URLSearchParams(query).toString(), ...kept].join("&")}`;
}

/** An error of the provider may quote the key. Any other answer passes as it is. */
async function toAnswer(answer: IncomingMessage, secrets: readonly string[]): Promise<Answer> {
  const { statusCode: status = 502 } = answer;
  const headers = withoutSecrets(fromProvider(answer), secrets);
  if (status < 400) return { status, headers, body: answer, servedBy: "provider" };
  // A compressed error cannot be searched. It was not asked for.
  const { "content-encoding": coding = ["identity"], ...plain } = headers;
  const isReadable = coding.every((name) => name === "identity");
  if (!isReadable) answer.destroy();
  const text = isReadable ? await readError(answer, Math.max(...secrets.map(({ length }) => length))) : "";
  const clean = Buffer.from(hide(text.toString("latin1"), secrets), "latin1");
  const sized = { ...plain, "content-length": [String(clean.length)] };
  return {
    status,
    headers: sized,
    body: Readable.from(clean.length === 0 ? [] : [clean]),
    servedBy: "provider",
  };
}

const HIDDEN = "[key]";

function hide(text: string, secrets: readonly string[]): string {
  return secrets.reduce((clean, secret) => clean.replaceAll(secret, HIDDEN), text);
}

function withoutSecrets(headers: Headers, secrets: readonly string[]): Headers {
  return Object.fromEntries(
    Object.entries(headers).map(([name, values]) => [name, values.map((text) => hide(text, secrets))]),
  );
}

/** The whole of an error. A longer one is cut, without the last bytes, which may be the beginning of a secret. */
async function readError(answer: IncomingMessage, secretLength = 0): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > LONGEST_ERROR) return Buffer.concat(chunks).subarray(0, LONGEST_ERROR - secretLength);
  }
  return Buffer.concat(chunks);
}

/** Keeps connections to one provider open between requests, as the CLIs do. */
class DialAgent extends Agent {
  readonly #to: URL;
  readonly #dial: Dial;

  constructor(to: URL, dial: Dial) {
    super({ keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 16, timeout: 600_000 });
    this.#to = to;
    this.#dial = dial;
  }

  override createConnection(
    _options: ClientRequestArgs,
    done?: (error: Error | null, socket: Socket) => void,
  ): undefined {
    open(this.#to, this.#dial, (error, socket) => done?.(error, socket));
    return undefined;
  }
}

const open = callbackify(connectTo);

async function connectTo({ protocol, port, hostname }: URL, dial: Dial): Promise<Socket> {
  const isSecure = protocol === "https:";
  const host = hostname.replace(/^\[|\]$/g, "");
  const socket = await dial(host, port === "" ? (isSecure ? 443 : 80) : Number(port));
  return isSecure ? secure(socket, host) : socket;
}

/** Starts TLS, in which the provider proves its name before anything is sent. */
function secure(socket: Socket, host: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const upstream = connectTls({ socket, host, ...servername, ALPNProtocols: ["http/1.1"] });
    const fail = (error: Error): void => {
      upstream.destroy();
      socket.destroy();
      reject(error);
    };
    upstream.once("error", fail);
    upstream.once("secureConnect", () => resolve(upstream.off("error", fail)));
  });
}
