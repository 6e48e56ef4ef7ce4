import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ask, type Got, type Lab, listen, openLab, portOf } from "./lab.ts";

type Respond = (request: IncomingMessage & { body: string; model: string }, response: ServerResponse) => void;

describe("the gateway's rules", () => {
  let server: Server;
  let lab: Lab;
  let seen: { path: string; body: string }[];
  let respond: Respond;
  beforeEach(async () => {
    seen = [];
    server = await listen(
      createServer((request, response) => {
        let body = "";
        request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
        request.on("end", () => {
          seen.push({ path: request.url ?? "", body });
          const model = (JSON.parse(body || "{}") as { model?: string }).model ?? "";
          respond(Object.assign(request, { body, model }), response);
        });
      }),
    );
    respond = (_request, response) => answer(response);
    lab = await openLab(`http://127.0.0.1:${portOf(server)}`);
  });
  afterEach(async () => {
    await lab.close();
    server.closeAllConnections();
    server.close();
  });

  const send = (body: string, path = "v1/messages"): Promise<Got> =>
    ask(`${lab.url}/${path}`, { headers: { "x-api-key": lab.token }, body });
  const ended = () => lab.records().filter(({ type }) => type === "ended");

  it("gives the provider another name of the model, and changes no other byte", async () => {
    lab.desk.rules = { models: { fast: 'the "real" one/1' } };
    expect((await send(around('"fast"'))).status).toBe(200);
    expect(seen[0]?.body).toBe(around(JSON.stringify('the "real" one/1')));
    expect(lab.records().find(({ type }) => type === "started")).toMatchObject({ model: "fast" });
    expect(ended()).toMatchObject([{ model: 'the "real" one/1' }]);
    expect((await send(around('"other"'))).status).toBe(200);
    expect(seen[1]?.body).toBe(around('"other"'));
  });

  it("names another model in the path of Gemini", async () => {
    lab.desk.rules = { models: { "gemini-a": "gemini-b" } };
    await send("{}", "v1beta/models/gemini-a:generateContent?alt=sse");
    expect(seen[0]?.path).toBe("/v1beta/models/gemini-b:generateContent?alt=sse");
  });

  it.each([429, 500, 503, 529, "cut"] as const)("falls back after %s, and tells it", async (failure) => {
    lab.desk.rules = { fallback: ["second", "third"] };
    respond = ({ model }, response) => {
      if (model === "third") return answer(response);
      if (failure === "cut") response.destroy();
      else refuse(response, failure);
    };
    expect((await send('{"model":"first"}')).status).toBe(200);
    expect(seen.map(({ body }) => (JSON.parse(body) as { model: string }).model).filter(once)).toEqual([
      "first",
      "second",
      "third",
    ]);
    expect(ended()).toMatchObject([{ served: "fallback", model: "third", status: 200 }]);
  });

  it.each([400, 401, 404])("does not fall back after %i", async (status) => {
    lab.desk.rules = { fallback: ["second"] };
    respond = (_request, response) => refuse(response, status);
    expect((await send('{"model":"first"}')).status).toBe(status);
    expect(seen).toHaveLength(1);
  });

  it("does not fall back after the first byte", async () => {
    lab.desk.rules = { fallback: ["second"] };
    respond = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('data: {"type":"message_start","message":{"usage":{"input_tokens":1}}}\n\n');
      setTimeout(() => response.destroy(), 50);
    };
    expect(await send('{"model":"first"}')).toMatchObject({ status: 200, isCut: true });
    expect(seen).toHaveLength(1);
    expect(ended()).toMatchObject([{ served: "provider", error: "cut" }]);
  });

  it("waits for the reset of a limit, with the same bytes, and says until when", async () => {
    lab.desk.rules = { untilReset: true };
    respond = (_request, response) => {
      if (seen.length > 2) return answer(response);
      refuse(response, 429, { "retry-after": "1" });
    };
    expect((await send('{"model":"first"}')).status).toBe(200);
    const limited = lab.records().filter(({ type }) => type === "limited");
    expect(limited).toHaveLength(2);
    expect(limited[0]).toMatchObject({ until: expect.any(Number) });
    expect(ended()).toHaveLength(1);
    expect(seen.map(({ body }) => body)).toEqual(Array(3).fill('{"model":"first"}'));
  });

  it("passes a limit on that has no reset, and any limit without the setting", async () => {
    lab.desk.rules = { untilReset: true };
    respond = (_request, response) => refuse(response, 429);
    expect((await send('{"model":"first"}')).status).toBe(429);
    delete lab.desk.rules;
    respond = (_request, response) => refuse(response, 429, { "retry-after": "1" });
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await send('{"model":"first"}');
    const got = await send('{"model":"first"}');
    expect([got.status, got.headers["retry-after"]]).toEqual([429, "1"]);
  });

  it.each([
    '{"model":"dear","model":"good","max_tokens":5}',
    '{"model":"good","MODEL":"dear","max_tokens":5}',
    '{"mod\\u0065l":"dear","model":"good","max_tokens":5}',
    '{"model":"good","max_tokens":5,"n":3}',
    '{"model":"good","max_tokens":5,"n":"3"}',
    '{"model":"good","max_tokens":5,"generationConfig":{"maxOutputTokens":"500"}}',
    '{"model":"good","generationConfig":{"maxOutputTokens":5},"generation_config":{"max_output_tokens":500}}',
  ])("11: keep the policy against two readings: %s", async (body) => {
    lab.desk.rules = { policy: { models: ["good"], maxOutputTokens: 10 } };
    expect((await send(body)).status).toBe(403);
    expect(seen).toEqual([]);
  });

  it.each([
    ['{"model":"other","max_tokens":5}', 403],
    ['{"model":"good","max_tokens":11}', 403],
    ['{"model":"good"}', 403],
    ['{"max_tokens":5}', 403],
    ['{"model":"good","max_tokens":10}', 200],
  ])("keeps the policy: %s gets %i", async (body, status) => {
    lab.desk.rules = { policy: { models: ["good"], maxOutputTokens: 10 } };
    const got = await send(body);
    expect(got.status).toBe(status);
    expect(seen).toHaveLength(status === 200 ? 1 : 0);
    if (status === 403) expect(ended()).toMatchObject([{ error: "policy", status: 403 }]);
  });
});

function once<T>(value: T, at: number, all: readonly T[]): boolean {
  return all.indexOf(value) === at;
}

function around(name: string): string {
  return `{ "tools" : [{"model":"fast"}], "text":"\\"model\\":\\"fast\\" ü", "model"  :  ${name} ,"max_tokens":5e0}`;
}

function answer(response: ServerResponse): void {
  const usage = { input_tokens: 1, output_tokens: 1 };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ type: "message", id: "m", usage }));
}

function refuse(response: ServerResponse, status: number, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end("{}");
}
