import type { SluiceEvent } from "../../src/contract/index.ts";
import { type AppOptions, createApp, listen, type LogLine } from "../../src/http/index.ts";
import type { App } from "../../src/http/index.ts";
import type { EngineOptions } from "../../src/sessions/index.ts";
import { openEngine, type TestEngine } from "../support/engine.ts";

export interface AppBench {
  readonly test: TestEngine;
  readonly app: App;
  readonly url: string;
  readonly lines: LogLine[];
  call(method: string, path: string, options?: CallOptions): Promise<Response>;
  close(): Promise<void>;
}

export interface CallOptions {
  readonly json?: unknown;
  readonly body?: BodyInit;
  readonly headers?: Record<string, string>;
}

/** The real app over the real engine on a real port. */
export async function openApp(
  options: Partial<AppOptions> = {},
  engine: Partial<EngineOptions> = {},
): Promise<AppBench> {
  const test = await openEngine(engine);
  const lines: LogLine[] = [];
  const app = createApp({
    engine: test.engine,
    token: false,
    version: "1.2.3",
    logger: (line) => lines.push(line),
    ...options,
  });
  const server = await listen({ app, host: "127.0.0.1", port: 0 });
  return {
    test,
    app,
    url: server.url,
    lines,
    call(method, path, { json, body, headers = {} } = {}) {
      return fetch(server.url + path, {
        method,
        headers: json === undefined ? headers : { "content-type": "application/json", ...headers },
        ...(json !== undefined && { body: JSON.stringify(json) }),
        ...(body !== undefined && { body }),
      });
    },
    async close() {
      await server.close();
      await test.close();
    },
  };
}

export interface EventPage {
  readonly events: SluiceEvent[];
  readonly hasMore: boolean;
}

export interface ProblemBody {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly [fact: string]: unknown;
}

/** The code of a checked problem document. */
export async function codeOf(response: Response): Promise<string> {
  return (await problemOf(response)).type.replace("urn:sluice:error:", "");
}

export async function problemOf(response: Response): Promise<ProblemBody> {
  const kind = response.headers.get("content-type");
  if (kind !== "application/problem+json") throw new Error(`${response.status} with ${kind}`);
  const body = (await response.json()) as ProblemBody;
  if (body.status !== response.status || !body.title || !body.detail) throw new Error(JSON.stringify(body));
  return body;
}
