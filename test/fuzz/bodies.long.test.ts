import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAnthropic } from "../http/anthropic/anthropic-bench.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { fuzz } from "./fuzz.ts";
import { BODIES, HUGE } from "./request-samples.ts";
import { plan, type Plan, type Thrown, toThrown } from "./requests.ts";

interface RouteName {
  readonly method: string;
  readonly path: string;
}

const BETA = "managed-agents-2026-04-01";
let server: TestServer;
let routes: RouteName[] = [];
const known: Record<string, string> = { agent: "scripted", "ag-ui": "scripted", ports: "1", hosts: "1" };

beforeAll(async () => {
  routes = await mountedRoutes();
  server = await startServer();
  await refill();
}, 120_000);
afterAll(async () => {
  await server.close();
});

/** Every route of every dialect, from the app itself. */
async function mountedRoutes(): Promise<RouteName[]> {
  const bench = await openAnthropic();
  try {
    const names = bench.app.routes.map(({ method, path }) => ({
      method: method === "ALL" ? "POST" : method,
      path,
    }));
    const all = new Map(names.map((route) => [`${route.method} ${route.path}`, route]));
    // The proxy to a sandbox's port answers 502 where nothing listens.
    all.delete("POST /v1/sessions/:id/ports/:port/*");
    return [...all.values()].filter(({ path }) => path !== "/*" && path !== "*" && !path.endsWith("/v1/*"));
  } finally {
    await bench.close();
  }
}

async function refill(): Promise<void> {
  const call = async (path: string, body: unknown): Promise<string> => {
    const answer = await server.fetch(`/anthropic/v1${path}`, {
      method: "POST",
      headers: { "anthropic-beta": BETA, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return String(((await answer.json()) as { id?: unknown }).id);
  };
  known["agents"] = await call("/agents", { name: "a", model: "scripted" });
  known["environments"] = await call("/environments", {
    name: `e ${Math.random()}`,
    config: { type: "self_hosted" },
  });
  known["vaults"] = await call("/vaults", { display_name: "v" });
  known["sessions"] = await call("/sessions", {
    agent: known["agents"],
    environment_id: known["environments"],
  });
  await server.client.sessions.create("known", { agent: "scripted" }).catch(() => {});
}

interface Answered {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

async function throwAt({ method, path, headers, body }: Thrown): Promise<Answered> {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(new Error(`${method} ${path}: no answer`)), 60_000);
  try {
    const response = await server.fetch(path, {
      method,
      headers: { "anthropic-beta": BETA, ...headers },
      ...(body === undefined ? {} : { body: Buffer.from(body) }),
      signal: abort.signal,
    });
    const type = response.headers.get("content-type") ?? "";
    // A stream is let go: that it began is its answer.
    const text = response.status < 400 ? "" : await response.text();
    await response.body?.cancel().catch(() => {});
    return { status: response.status, type, text };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

/** No 5xx except for a missing tool of the host, and every refusal in the dialect's own format. */
function assertAnswered(thrown: Thrown, { status, type, text }: Answered): void {
  const what = `${thrown.method} ${thrown.path.slice(0, 200)} -> ${status} ${text.slice(0, 500)}`;
  if (status >= 500) throw new Error(what);
  if (status < 400) return;
  const body = JSON.parse(text) as { error?: { type?: string; message?: string }; detail?: string };
  if (thrown.path.startsWith("/anthropic")) {
    expect(body.error, what).toMatchObject({ type: expect.any(String), message: expect.any(String) });
    return;
  }
  expect(type, what).toMatch(/json/);
  expect(body.detail, what).toBeTypeOf("string");
}

async function check(given: Plan): Promise<void> {
  const thrown = toThrown(given, routes, known);
  // Node's own client refuses an invalid URL.
  if (!URL.canParse(server.url + thrown.path)) return;
  const answered = await throwAt(thrown);
  assertAnswered(thrown, answered);
  if (thrown.method === "DELETE" || thrown.path.includes("/terminate")) await refill();
}

async function assertAlive(): Promise<void> {
  expect((await server.fetch("/healthz")).status).toBe(200);
  expect(server.stderr()).not.toMatch(/nhandled|"level":"error"|RangeError|TypeError/);
}

describe("bodies of every dialect", () => {
  fuzz("are answered, with any content", { inputs: plan, tries: 400, check });

  it("are answered at every route, valid or huge", async () => {
    const failed: string[] = [];
    for (const [at, { method }] of routes.entries()) {
      if (method === "GET") continue;
      for (const [kind, many] of [
        ["huge", HUGE],
        ["mutated", BODIES],
      ] as const) {
        // Each route gets some of them; all routes together all of them.
        for (let seed = at % 5; seed < many.length; seed += 5) {
          const content = kind === "huge" ? { kind, seed } : { kind, seed, mutations: [] };
          const thrown = toThrown({ route: at, ids: [1], query: 0, headers: [0], content }, routes, known);
          try {
            assertAnswered(thrown, await throwAt(thrown));
          } catch (error) {
            failed.push(String(error));
          }
        }
      }
    }
    expect(failed).toEqual([]);
  }, 600_000);

  it("leave a server that still answers, and nothing in its log", assertAlive);
});
