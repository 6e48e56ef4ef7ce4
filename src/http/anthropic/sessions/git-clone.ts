import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { pipeline } from "node:stream";
import { promisify } from "node:util";
import type { Checkout } from "../../../dialects/anthropic/resources/session.ts";
import { connectPublic } from "../tenant-network.ts";

export interface CloneRequest {
  readonly url: string;
  readonly checkout?: Checkout | undefined;
  readonly token?: string | undefined;
  /** Clones over a proxy that reaches public hosts only, redirects included. */
  readonly isPublic: boolean;
}

export class RepositoryFailure extends Error {
  /** The error code in the log. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "RepositoryFailure";
    this.code = code;
  }
}

const run = promisify(execFile);
const TIMEOUT_MS = 120_000;

/** Clones a repository without its hooks and without the git configuration of this machine. */
export async function cloneRepository(folder: string, wanted: CloneRequest): Promise<void> {
  const proxy = wanted.isPublic ? await openPublicProxy() : undefined;
  try {
    await clone(folder, wanted, toEnvironment(folder, wanted.token, proxy?.url));
  } finally {
    await proxy?.close();
  }
}

async function clone(
  folder: string,
  { url, checkout, token }: CloneRequest,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const git = async (...args: string[]): Promise<void> => {
    await run("git", args, { env, timeout: TIMEOUT_MS, maxBuffer: 1 << 20 });
  };
  await git("clone", "--quiet", "--no-hardlinks", "--", url, folder).catch((error: unknown) => {
    throw new RepositoryFailure(codeOf(error), `${url} could not be cloned: ${messageOf(error, token)}`);
  });
  if (!checkout) return;
  const target = checkout.type === "branch" ? checkout.name : checkout.sha;
  await git("-C", folder, "checkout", "--quiet", target, "--").catch((error: unknown) => {
    const message = `${url} has no ${checkout.type} ${target}: ${messageOf(error, token)}`;
    throw new RepositoryFailure("repository_checkout", message);
  });
}

/** The token is in the environment: arguments would show it to every process, and files of the clone to the agent. */
function toEnvironment(
  home: string,
  token: string | undefined,
  proxy: string | undefined,
): NodeJS.ProcessEnv {
  const settings: [string, string][] = [
    ["core.hooksPath", "/dev/null"],
    ["protocol.allow", "never"],
    ["protocol.https.allow", "always"],
    ["protocol.http.allow", "always"],
    ["protocol.file.allow", proxy === undefined ? "always" : "never"],
    ["safe.directory", "*"],
  ];
  if (proxy !== undefined) settings.push(["http.proxy", proxy], ["http.proxyAuthMethod", "basic"]);
  if (token !== undefined) {
    const basic = Buffer.from(`x-access-token:${token}`).toString("base64");
    settings.push(["http.extraHeader", `Authorization: Basic ${basic}`]);
  }
  const env: NodeJS.ProcessEnv = {
    PATH: process.env["PATH"],
    HOME: home,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_TERMINAL_PROMPT: "0",
    GIT_CONFIG_COUNT: String(settings.length),
  };
  for (const [index, [key, value]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return env;
}

function codeOf(error: unknown): string {
  const { stderr: text = "" } = error as { stderr?: string };
  if (/authentication failed|could not read username|\b401\b/i.test(text)) return "repository_authentication";
  if (/\b403\b|permission denied|forbidden/i.test(text)) return "repository_forbidden";
  if (/not found|does not exist|\b404\b|does not appear to be a git repository/i.test(text))
    return "repository_not_found";
  return "repository_clone";
}

function messageOf(error: unknown, token: string | undefined): string {
  const { stderr, message } = error as { stderr?: string; message: string };
  const text = (stderr || message)
    .trim()
    .replaceAll(/\s*\n\s*/g, "; ")
    .slice(0, 500);
  return token === undefined ? text : text.replaceAll(token, "[token]");
}

interface PublicProxy {
  /** Includes the password. */
  readonly url: string;
  close(): Promise<void>;
}

const CHALLENGE = { "proxy-authenticate": 'Basic realm="sluice"' };

/**
 * A proxy to the internet for a program that opens its own connections, such as git. It checks the address of every
 * connection, redirects included. A refused host and a missing one get the same response.
 */
async function openPublicProxy(): Promise<PublicProxy> {
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
      (upstream) => {
        for (const side of [upstream, socket]) {
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
  // The client speaks TLS through the tunnel, so this side opens plain TCP.
  const { hostname, port } = new URL(`http://${url}`);
  const upstream = await connectPublic(new URL(`http://${hostname}:${port || 443}`));
  upstream.on("error", () => socket.destroy());
  socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
  upstream.write(head);
  pipeline(upstream, socket, () => {});
  pipeline(socket, upstream, () => {});
  return upstream;
}

async function forward(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const url = new URL(incoming.url ?? "");
  if (url.protocol !== "http:") return void outgoing.writeHead(502).end();
  const socket = await connectPublic(url);
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
