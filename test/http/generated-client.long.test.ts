import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import openapiTS, { astToString } from "openapi-typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AnthropicBench, KEY, openAnthropic } from "./anthropic/anthropic-bench.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** A program on the generated types alone. It calls every dialect and prints what it got. */
const PROGRAM = `
import createClient from "openapi-fetch";
import type { components, paths } from "./sluice.js";

type Schemas = components["schemas"];
const [baseUrl = "", token = ""] = process.argv.slice(2);
const script = (text: string) => "#script " + JSON.stringify([{ say: text }]);

function must<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

async function* readFrames<Frame>(body: ReadableStream<Uint8Array> | null | undefined): AsyncGenerator<Frame> {
  if (!body) throw new Error("no body");
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const parts = text.split("\\n\\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split("\\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice(6)) as Frame;
    }
  }
}

async function universal(): Promise<object> {
  const api = createClient<paths>({ baseUrl, headers: { authorization: "Bearer " + token } });
  const path = { id: "generated" };
  const created = must(await api.POST("/v1/sessions/{id}", { params: { path }, body: { agent: "scripted" } }));
  const { data: stream } = await api.POST("/v1/sessions/{id}/messages/stream", {
    params: { path },
    body: { message: script("hello from v1") },
    parseAs: "stream",
  });
  const said: string[] = [];
  for await (const event of readFrames<Schemas["SluiceEvent"]>(stream))
    if (event.type === "item.completed" && event.data.item.role === "assistant")
      for (const part of event.data.item.content) if (part.type === "text") said.push(part.text);
  const info = must(await api.GET("/v1/sessions/{id}", { params: { path } }));
  const page = must(
    await api.GET("/v1/sessions/{id}/events", { params: { path, query: { limit: 1, types: ["session.started"] } } }),
  );
  const { error } = await api.GET("/v1/sessions/{id}", { params: { path: { id: "none" } } });
  return { healthy: created.healthy, said, agent: info.agent, events: page.events.length, refused: error?.type };
}

async function anthropic(): Promise<object> {
  const api = createClient<paths>({ baseUrl, headers: { "x-api-key": token } });
  const header = { "anthropic-beta": "managed-agents-2026-04-01" };
  const params = { header };
  const agent = must(
    await api.POST("/anthropic/v1/agents", { params, body: { name: "generated", model: "scripted" } }),
  );
  const environment = must(await api.POST("/anthropic/v1/environments", { params, body: { name: "generated" } }));
  const session = must(
    await api.POST("/anthropic/v1/sessions", {
      params,
      body: { agent: agent.id, environment_id: environment.id },
    }),
  );
  const path = { id: session.id };
  const { data: stream } = await api.GET("/anthropic/v1/sessions/{id}/events/stream", {
    params: { path, header },
    parseAs: "stream",
  });
  const sent = must(
    await api.POST("/anthropic/v1/sessions/{id}/events", {
      params: { path, header },
      body: {
        events: [{ type: "user.message", content: [{ type: "text", text: script("hello from anthropic") }] }],
      },
    }),
  );
  const said: string[] = [];
  for await (const event of readFrames<Schemas["AnthropicStreamEvent"]>(stream)) {
    if (event.type === "agent.message") for (const block of event.content) said.push(block.text);
    if (event.type === "session.status_idle") break;
  }
  const listed = must(
    await api.GET("/anthropic/v1/sessions/{id}/events", {
      params: { path, header, query: { types: ["agent.message"], order: "desc", limit: 5 } },
    }),
  );
  const form = new FormData();
  form.set("file", new Blob(["content"]), "a.txt");
  const file = must(
    await api.POST("/anthropic/v1/files", { body: { file: "" }, bodySerializer: () => form }),
  );
  const { error } = await api.GET("/anthropic/v1/agents/{id}", { params: { path: { id: "none" }, header } });
  return {
    version: agent.version,
    config: environment.config.type,
    status: session.status,
    sent: sent.data.map(({ type }) => type),
    said,
    listed: listed.data.length,
    size: file.size_bytes,
    refused: error?.error.type,
  };
}

async function agUi(): Promise<object> {
  const api = createClient<paths>({ baseUrl, headers: { authorization: "Bearer " + token } });
  const path = { agent: "scripted" };
  const { data: stream } = await api.POST("/ag-ui/{agent}", {
    params: { path },
    body: {
      threadId: "generated-thread",
      runId: "generated-run",
      messages: [{ id: "m", role: "user", content: script("hello from ag-ui") }],
    },
    parseAs: "stream",
  });
  let said = "";
  let outcome: string | undefined;
  for await (const event of readFrames<Schemas["AgUiFrame"]>(stream)) {
    if (event.type === "TEXT_MESSAGE_CONTENT") said += event.delta;
    if (event.type === "RUN_FINISHED") outcome = event.outcome?.type;
  }
  // The answer is a stream where the query names a run.
  const thread = must(
    await api.GET("/ag-ui/{agent}", { params: { path, query: { threadId: "generated-thread" } } }),
  ) as Schemas["AgUiThread"];
  const roles = thread.messages.map(({ role }) => role);
  const { identity } = must(await api.GET("/ag-ui/{agent}/capabilities", { params: { path } }));
  return { said, outcome, roles, identity: identity.type };
}

async function ndjson(): Promise<object> {
  const api = createClient<paths>({ baseUrl, headers: { authorization: "Bearer " + token } });
  const { data: body } = await api.POST("/ndjson/stream", {
    body: { prompt: script("hello from ndjson"), conversation: "generated-lines", agent: "scripted" },
    parseAs: "text",
  });
  const lines = String(body).trim().split("\\n").map((line) => JSON.parse(line) as Schemas["NdjsonLine"]);
  const said = lines.flatMap((line) => (line.type === "result" ? [line.message] : []));
  const params = { path: { id: "generated-lines" } };
  const { messages } = must(await api.GET("/ndjson/conversations/{id}", { params }));
  return { said, roles: messages.map(({ role }) => role) };
}

async function webhooks(): Promise<object> {
  const api = createClient<paths>({ baseUrl, headers: { authorization: "Bearer " + token } });
  // The server of this test sends none; the types of the body are what counts.
  const { error } = await api.POST("/v1/webhooks", {
    body: { url: "http://127.0.0.1:9/hook", types: ["turn.ended"] },
  });
  return { refused: error?.type };
}

console.log(
  JSON.stringify({
    universal: await universal(),
    anthropic: await anthropic(),
    agUi: await agUi(),
    ndjson: await ndjson(),
    webhooks: await webhooks(),
  }),
);
`;

let bench: AnthropicBench;
let folder: string;
beforeAll(async () => {
  bench = await openAnthropic();
  folder = await mkdtemp(join(tmpdir(), "sluice-generated-"));
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const answer = await fetch(`${bench.url}/openapi.json`, { headers: { authorization: `Bearer ${KEY}` } });
  const document = (await answer.json()) as Parameters<typeof openapiTS>[0];
  await writeFile(join(folder, "sluice.d.ts"), astToString(await openapiTS(document)));
  await writeFile(join(folder, "program.ts"), PROGRAM);
  await writeFile(join(folder, "package.json"), '{"type":"module"}');
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["program.ts"] }));
});
afterAll(async () => {
  await bench.close();
  await rm(folder, { recursive: true, force: true });
});

const compilerOptions = {
  strict: true,
  noUncheckedIndexedAccess: true,
  skipLibCheck: false,
  target: "es2023",
  module: "nodenext",
  types: ["node"],
};

describe("a client generated from the OpenAPI document", () => {
  it("compiles under strict, and works in every dialect", { timeout: 120_000 }, async () => {
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const compiled = await run(process.execPath, [tsc, "-p", folder]).catch(
      (error: { stdout: string }) => error,
    );
    expect(compiled.stdout).toBe("");
    const { stdout } = await run(process.execPath, [join(folder, "program.js"), bench.url, KEY]);
    expect(JSON.parse(stdout)).toEqual({
      universal: {
        healthy: true,
        said: ["hello from v1"],
        agent: "scripted",
        events: 1,
        refused: "urn:sluice:error:session_not_found",
      },
      anthropic: {
        version: 1,
        config: "cloud",
        status: "idle",
        sent: ["user.message"],
        said: ["hello from anthropic"],
        listed: 1,
        size: 7,
        refused: "not_found_error",
      },
      agUi: {
        said: "hello from ag-ui",
        outcome: "success",
        roles: ["user", "assistant"],
        identity: "scripted",
      },
      ndjson: { said: ["hello from ndjson"], roles: ["user", "assistant"] },
      webhooks: { refused: "urn:sluice:error:not_found" },
    });
  });
});
