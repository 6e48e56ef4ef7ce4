import { request, type IncomingMessage } from "node:http";
import { type Duplex, Readable } from "node:stream";
import type { ReadableStream as NodeReadableStream } from "node:stream/web";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context, Hono } from "hono";
import type { z } from "zod";
import { SluiceError } from "../../contract/index.ts";
import { parseWith, whole } from "../../dialects/universal/index.ts";
import type { TokenWatch } from "../access/token-watch.ts";
import type { AppEnv, Upgrade } from "../context.ts";
import { mountRoute } from "../operation.ts";
import { CONNECTION_HEADERS } from "../nodes/forward.ts";
import { byPath } from "../nodes/owner-rules.ts";
import type { Services } from "../services.ts";
import { toHead } from "./upgrades.ts";

export const PortNumber: z.ZodType<number> = whole(1, 65_535);
const PREFIX = /^\/v1\/sessions\/[^/]+\/ports\/[^/?]+/;

/** Headers for this server only: its token, and those that it checks. */
const SERVER_HEADERS = ["authorization", "host", "origin"];

/** Cookies belong to the server's origin, whose pages and programs are others. */
const COOKIES = ["cookie", "set-cookie"];

/** Cookies of this server's own pages: no program may read or set them. A nameless cookie begins with `=`. */
const OWN_COOKIE = /^[\s=]*(?:__(?:Host|Secure)-)?sluice_/i;

/** The start of an isolated sandbox's own response, if no program listens on the port. */
const REFUSED = "sluice: nothing answers";

/** Gives pages of a sandbox an origin of their own: with the server's origin they could call the whole API. */
const SANDBOXED = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

/**
 * `/v1/sessions/{id}/ports/{port}/…`: a program that listens inside the sandbox, behind the server's token.
 * It takes any method and any path, so it is no operation.
 */
export function mountPorts(app: Hono<AppEnv>, services: Services): void {
  const row = {
    method: "ALL",
    path: "/v1/sessions/:id/ports/:port/*",
    scope: "control",
    owner: byPath,
  } as const;
  mountRoute(app, services, row, async (c, engine) => {
    const id = c.req.param("id") ?? "";
    const port = parseWith(PortNumber, c.req.param("port"), "path");
    const target = await engine.host(id, port);
    const answer = await pass(c, { target, port, watch: services.watch }).catch((error: unknown) => {
      const detail = `nothing answers on port ${port} of session ${id}; is the program listening on 127.0.0.1, and on that port?`;
      throw new SluiceError("stream_error", detail, { port }, { cause: error });
    });
    if (answer === "upgraded") return RESPONSE_ALREADY_SENT;
    const headers = passedOn(toPairs(answer.headersDistinct), CONNECTION_HEADERS);
    headers.append("content-security-policy", SANDBOXED);
    headers.set("sluice-port", String(port));
    const status = answer.statusCode as number;
    const release = services.watch.hold(c.get("access"), () => answer.destroy());
    answer.once("close", release);
    if (c.req.method === "HEAD" || [204, 205, 304].includes(status)) {
      answer.resume();
      return new Response(null, { status, headers });
    }
    return new Response(Readable.toWeb(answer) as ReadableStream, { status, headers });
  });
}

// Uses `request`: `fetch` refuses some ports, ends a silent stream after five minutes, and decompresses bodies.
function pass(
  c: Context<AppEnv>,
  { target, port, watch }: { target: URL; port: number; watch: TokenWatch },
): Promise<IncomingMessage | "upgraded"> {
  const { pathname, search } = new URL(c.req.url);
  const { signal, headers } = c.req.raw;
  const upgrade = c.env?.upgrade;
  const dropped = [...CONNECTION_HEADERS, ...SERVER_HEADERS, ...(upgrade ? COOKIES : [])];
  return new Promise((resolve, reject) => {
    const outgoing = request({
      host: target.hostname.replaceAll(/[[\]]/g, ""),
      port: target.port || 80,
      method: c.req.method,
      path: `${pathname.replace(PREFIX, "") || "/"}${search}`,
      headers: {
        ...Object.fromEntries(passedOn([...headers], dropped)),
        ...(upgrade && { connection: "Upgrade", upgrade: "websocket" }),
      },
      agent: false,
      signal,
    });
    outgoing.once("upgrade", (answer, socket, head) => {
      if (!upgrade) return socket.destroy();
      join(upgrade, { answer, socket, head, port: String(port) });
      const release = watch.hold(c.get("access"), () => socket.destroy());
      socket.once("close", release);
      resolve("upgraded");
    });
    outgoing.on("error", reject).once("response", (answer) => {
      const { statusCode = 0 } = answer;
      if (statusCode < 200 || statusCode > 599)
        return outgoing.destroy(new Error(`the program answered with the status ${statusCode}`));
      if (statusCode !== 502) return resolve(answer);
      answer.once("readable", () => {
        const refusal = takeRefusal(answer);
        if (refusal === undefined) return resolve(answer);
        outgoing.destroy();
        reject(new Error(refusal));
      });
    });
    const body = upgrade ? undefined : bodyOf(c);
    if (!body) return outgoing.end();
    // A program may respond before it has read the whole body. Its response counts then, not the broken pipe.
    body.on("error", (error) => outgoing.destroy(error)).pipe(outgoing);
  });
}

/** Answers the client as the program has answered, and connects the two. The proxy reads no frame. */
function join(
  client: Upgrade,
  program: { answer: IncomingMessage; socket: Duplex; head: Buffer; port: string },
): void {
  const { answer, socket, head } = program;
  const headers = passedOn(toPairs(answer.headersDistinct), [
    ...CONNECTION_HEADERS,
    ...SERVER_HEADERS,
    ...COOKIES,
  ]);
  const upgraded = [["connection", "Upgrade"] as const, ["upgrade", "websocket"] as const];
  client.socket.write(toHead(101, [...headers, ...upgraded, ["sluice-port", program.port]]));
  client.socket.write(head);
  socket.write(client.head);
  for (const [one, other] of [[socket, client.socket] as const, [client.socket, socket] as const]) {
    one.on("error", () => other.destroy());
    one.once("close", () => other.destroy());
    one.pipe(other);
  }
}

/** The text of the sandbox's own response; undefined for the response of a program, which stays unread. */
function takeRefusal(answer: IncomingMessage): string | undefined {
  const head = answer.read() as Buffer | null;
  if (head?.subarray(0, REFUSED.length).toString() === REFUSED) return head.toString().trim();
  if (head) answer.unshift(head);
  return undefined;
}

function bodyOf(c: Context<AppEnv>): Readable | undefined {
  const { incoming } = c.env ?? {};
  if (!incoming) return c.req.raw.body ? Readable.fromWeb(c.req.raw.body as NodeReadableStream) : undefined;
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  return length === undefined && encoding === undefined ? undefined : (incoming as Readable);
}

type Pairs = readonly (readonly [name: string, value: string])[];

function passedOn(given: Pairs, dropped: readonly string[]): Headers {
  const named = given.find(([name]) => name === "connection")?.[1] ?? "";
  const left = new Set([...dropped, ...named.toLowerCase().split(/\s*,\s*/)]);
  const kept = new Headers();
  for (const [name, value] of given) {
    const passed = left.has(name) ? undefined : withoutOwnCookies(name, value);
    if (passed !== undefined) kept.append(name, passed);
  }
  return kept;
}

/** Undefined where nothing of the header is left. */
function withoutOwnCookies(name: string, value: string): string | undefined {
  if (name === "set-cookie") return OWN_COOKIE.test(value) ? undefined : value;
  if (name !== "cookie") return value;
  const left = value.split(";").filter((cookie) => !OWN_COOKIE.test(cookie));
  return left.join(";").trim() || undefined;
}

function toPairs(headers: IncomingMessage["headersDistinct"]): Pairs {
  return Object.entries(headers).flatMap(([name, values = []]) =>
    values.map((value) => [name, value] as const),
  );
}
