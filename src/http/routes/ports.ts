import { request, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import type { Context, Hono } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { parseWith, whole } from "../../dialects/universal/index.ts";
import type { AppEnv } from "../env.ts";
import type { Services } from "../services.ts";

const Port = whole(1, 65_535);
const PREFIX = /^\/v1\/sessions\/[^/]+\/ports\/[^/?]+/;

/** Belongs to one connection: neither side may see the other's. */
const OF_ONE_CONNECTION = [
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];
/** Ours: the token opens the server, and the origin was judged by it. */
const OF_THIS_SERVER = ["authorization", "host", "origin"];

const REFUSED = "sluice: nothing answers";

/** A page from inside of the sandbox must not be one of the server's own origin, where it could call all of it. */
const SANDBOXED = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

/**
 * `/v1/sessions/{id}/ports/{port}/…`: a program that listens inside the sandbox, behind the server's token.
 * Any method and any path, so it is mounted beside the table of operations.
 */
export function mountPorts(app: Hono<AppEnv>, { engine }: Services): void {
  app.all("/v1/sessions/:id/ports/:port/*", async (c) => {
    const { id } = c.req.param();
    const port = parseWith(Port, c.req.param("port"), "path");
    const target = await engine.host(id, port);
    const answer = await pass(c, target).catch((error: unknown) => {
      throw new SluiceError(
        "stream_error",
        `nothing answers on port ${port} of session ${id}; is the program listening on 127.0.0.1, and on that port?`,
        { port },
        { cause: error },
      );
    });
    const headers = passedOn(toPairs(answer.headersDistinct), OF_ONE_CONNECTION);
    headers.append("content-security-policy", SANDBOXED);
    headers.set("sluice-port", String(port));
    const status = answer.statusCode as number;
    if (c.req.method === "HEAD" || [204, 205, 304].includes(status)) {
      answer.resume();
      return new Response(null, { status, headers });
    }
    return new Response(Readable.toWeb(answer) as unknown as BodyInit, { status, headers });
  });
}

// Not fetch: it refuses some ports, gives a quiet stream up after five minutes, and unpacks what it reads.
function pass(c: Context<AppEnv>, target: URL): Promise<IncomingMessage> {
  const { pathname, search } = new URL(c.req.url);
  const { signal, headers } = c.req.raw;
  return new Promise((resolve, reject) => {
    const outgoing = request({
      host: target.hostname.replaceAll(/[[\]]/g, ""),
      port: target.port || 80,
      method: c.req.method,
      path: `${pathname.replace(PREFIX, "") || "/"}${search}`,
      headers: Object.fromEntries(passedOn([...headers], [...OF_ONE_CONNECTION, ...OF_THIS_SERVER])),
      agent: false,
      signal,
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
    const body = bodyOf(c);
    if (!body) return outgoing.end();
    // A program may answer before it has read all; its answer counts then, not the cut.
    body.on("error", (error) => outgoing.destroy(error)).pipe(outgoing);
  });
}

/** The way into an isolated sandbox answers itself where nobody else does; what a program says stays unread. */
function takeRefusal(answer: IncomingMessage): string | undefined {
  const head = answer.read() as Buffer | null;
  if (head?.subarray(0, REFUSED.length).toString() === REFUSED) return head.toString().trim();
  if (head) answer.unshift(head);
  return undefined;
}

function bodyOf(c: Context<AppEnv>): Readable | undefined {
  const { incoming } = c.env ?? {};
  if (!incoming) return c.req.raw.body ? Readable.fromWeb(c.req.raw.body as ReadableStream) : undefined;
  const { "content-length": length, "transfer-encoding": encoding } = incoming.headers;
  return length === undefined && encoding === undefined ? undefined : (incoming as Readable);
}

type Pairs = readonly (readonly [name: string, value: string])[];

function passedOn(given: Pairs, dropped: readonly string[]): Headers {
  const named = given.find(([name]) => name === "connection")?.[1] ?? "";
  const left = new Set([...dropped, ...named.toLowerCase().split(/\s*,\s*/)]);
  const kept = new Headers();
  for (const [name, value] of given) if (!left.has(name)) kept.append(name, value);
  return kept;
}

function toPairs(headers: IncomingMessage["headersDistinct"]): Pairs {
  return Object.entries(headers).flatMap(([name, values = []]) =>
    values.map((value) => [name, value] as const),
  );
}
