import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Workbench } from "../cli/workbench.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { deepText } from "../fuzz/mutations.ts";
import { runSteps } from "./fortress-bench.ts";

const MB = 1024 * 1024;
let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  await server.client.sessions.create("s", { agent: "scripted" });
}, 60_000);
afterAll(() => server.close());

/** One route of each dialect that takes JSON, and where a value of any shape may stand in its body. */
const ROUTES = [
  ["/v1/sessions/new", (value: string) => `{"agent":"scripted","metadata":${value}}`],
  ["/v1/sessions/s/messages", (value: string) => `{"message":${value}}`],
  ["/v1/sessions/s/tools/x/reply", (value: string) => `{"output":"x","content":${value}}`],
  ["/anthropic/v1/agents", (value: string) => `{"name":"a","model":"scripted","tools":${value}}`],
  ["/anthropic/v1/sessions/s/events", (value: string) => `{"events":[${value}]}`],
  ["/ag-ui/scripted", (value: string) => `{"threadId":"t","runId":"r","messages":[],"state":${value}}`],
  ["/ndjson/stream", (value: string) => `{"prompt":"p","agent":"scripted","metadata":${value}}`],
] as const;

async function post(path: string, body: string | Uint8Array, type = "application/json") {
  const response = await server.fetch(path, {
    method: "POST",
    headers: { "content-type": type, "anthropic-beta": "managed-agents-2026-04-01" },
    body: typeof body === "string" ? Buffer.from(body) : Buffer.from(body),
  });
  const text = await response.text();
  return { status: response.status, text };
}

const words = (text: string): string => {
  const body = JSON.parse(text) as { detail?: string; error?: { message: string } };
  return body.detail ?? body.error?.message ?? "";
};

describe.each(ROUTES)("a body for %s", (path, around) => {
  it.each([10_000, 100_000, 1_000_000])(
    "that is nested %i levels deep is a 400 that says so",
    async (levels) => {
      for (const body of [
        deepText(levels),
        deepText(levels, ["[", "]"]),
        around(deepText(levels)),
        "[".repeat(levels),
        around(`"${"\\\\".repeat(3)}\\"",${"[".repeat(levels)}`),
      ]) {
        const { status, text } = await post(path, body);
        expect([status, words(text)]).toEqual([
          400,
          expect.stringContaining("nested more than 128 levels deep"),
        ]);
      }
    },
  );

  it("with more values than anybody needs is a 413 that says so", async () => {
    const { status, text } = await post(path, around(`[${"0,".repeat(3_000_000)}0]`));
    expect([status, words(text)]).toEqual([413, expect.stringContaining("more than 500000 values")]);
  });

  it("of 64 MB is a 413", async () => {
    expect((await post(path, Buffer.alloc(64 * MB, 0x20))).status).toBe(413);
  });

  it.each([
    ["empty", ""],
    ["only spaces", "  "],
    ["no JSON", "{"],
    ["two of them", "{}{}"],
    ["null", "null"],
    ["a number without end", "9".repeat(100_000)],
    ["a name of every object", '{"__proto__":{"agent":"x"},"constructor":1,"toString":[]}'],
    ["the same key twice", '{"a":1,"a":2}'],
    ["half a character", '"\\ud800"'],
    ["a NUL", '"\\u0000"'],
    ["a NUL outside of a string", "\u0000{}"],
  ])("that is %s is a 4xx", async (_, body) => {
    const { status, text } = await post(path, body);
    expect([status >= 400 && status < 500, words(text)]).toEqual([true, expect.any(String)]);
  });

  it.each([
    ["9".repeat(400)],
    ["1e999"],
    ['"\\ud800\\udc00\\udc00"'],
    ['{"__proto__":1}'],
    ["[[[[]]]]"],
    ['"\\u0000"'],
  ])("that holds %.20s is no failure of ours", async (value) =>
    expect((await post(path, around(value))).status).toBeLessThan(500),
  );

  it("that is no UTF-8 is a 400", async () => {
    expect((await post(path, Uint8Array.of(0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d))).status).toBe(400);
  });

  it("of another type is no failure of ours", async () => {
    for (const type of ["text/plain", "multipart/form-data", "application/json; charset=utf-16", "x"])
      expect((await post(path, "{}", type)).status).toBeLessThan(500);
  });
});

it("none of that is in the server's log, and it answers", async () => {
  expect((await server.fetch("/healthz")).status).toBe(200);
  expect(server.stderr()).not.toMatch(/nhandled|"level":"error"|RangeError/);
});

it("an agent's endlessly nested line is reported, and every dialect still tells the session", async () => {
  await server.client.sessions.create("deep", { agent: "scripted" });
  const deep = deepText(20_000);
  const events = await runSteps(
    server,
    "deep",
    { say: "before" },
    { raw: `{"type":"tool.called","id":"a","name":"n","input":${deep}}` },
    { raw: deepText(20_000, ["[", "]"]) },
    { raw: `{"type":"tool.called","id":"b","name":"n","input":${deepText(900)}}` },
    { say: "after" },
  );
  const types = events.map(({ type }) => type);
  expect(types.filter((type) => type === "agent.unparsed").length).toBeGreaterThanOrEqual(2);
  for (const path of [
    "/v1/sessions/deep/events?include_raw=true&extensions=true&limit=1000",
    "/anthropic/v1/sessions/deep/events",
    "/ag-ui/scripted?threadId=deep&offset=-1&follow=false&raw=true",
    "/ag-ui/scripted?threadId=deep",
  ]) {
    const response = await server.fetch(path, {
      headers: { "anthropic-beta": "managed-agents-2026-04-01" },
      signal: AbortSignal.timeout(20_000),
    });
    expect([path, response.status]).toEqual([path, 200]);
    expect((await response.text()).length).toBeGreaterThan(0);
  }
}, 60_000);

it("a recording that is nested without end is explained", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-recording-"));
  const bench = new Workbench();
  try {
    const file = join(folder, "deep.jsonl");
    await writeFile(file, `${JSON.stringify({ t: 1, dir: "out", raw: deepText(100_000) })}\n`);
    const decoded = await bench.run(["decode", "--agent", "claude", file]);
    expect([decoded.code, decoded.out]).toEqual([0, expect.stringContaining("agent.unparsed")]);
    await writeFile(file, `${deepText(100_000)}\n`);
    const refused = await bench.run(["decode", "--agent", "claude", file]);
    expect([refused.code === 0, refused.err]).toEqual([false, expect.stringContaining("nested more than")]);
  } finally {
    await bench.close();
    await rm(folder, { recursive: true });
  }
});
