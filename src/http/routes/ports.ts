import type { Hono } from "hono";
import { SluiceError } from "../../contract/index.ts";
import { parseWith, whole } from "../../dialects/universal/index.ts";
import type { AppEnv } from "../env.ts";
import type { Services } from "../services.ts";

const Port = whole(1, 65_535);

/** Belongs to one connection, or to us: neither side may see the other's. */
const NOT_PASSED_ON = new Set([
  "authorization",
  "connection",
  "content-length",
  "host",
  "keep-alive",
  "origin",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * `/v1/sessions/{id}/ports/{port}/…`: a program that listens inside the sandbox, behind the server's token.
 * Any method and any path, so it is mounted beside the table of operations.
 */
export function mountPorts(app: Hono<AppEnv>, { engine }: Services): void {
  app.all("/v1/sessions/:id/ports/:port/*", async (c) => {
    const { id, port } = c.req.param();
    const target = await engine.host(id, parseWith(Port, port, "path"));
    const asked = new URL(c.req.url);
    const prefix = new RegExp(`^/v1/sessions/[^/]+/ports/${port}`);
    target.pathname = asked.pathname.replace(prefix, "") || "/";
    target.search = asked.search;
    const { method, body, signal } = c.req.raw;
    const response = await fetch(target, {
      method,
      headers: passedOn(c.req.raw.headers),
      redirect: "manual",
      signal,
      ...(body === null ? {} : { body, duplex: "half" as const }),
    }).catch((error: unknown) => {
      throw new SluiceError(
        "stream_error",
        `nothing answers on port ${port} of session ${id}; is the program listening on 127.0.0.1?`,
        {},
        { cause: error },
      );
    });
    const headers = passedOn(response.headers);
    // The body comes to us unpacked.
    headers.delete("content-encoding");
    return new Response(response.body, { status: response.status, headers });
  });
}

function passedOn(headers: Headers): Headers {
  const kept = new Headers();
  for (const [name, value] of headers) if (!NOT_PASSED_ON.has(name)) kept.append(name, value);
  return kept;
}
