import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { HttpAgent } from "@ag-ui/client";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createResumingFetch } from "../../src/client/index.ts";
import { type AgUiBench, input, openAgUi } from "../http/ag-ui/ag-ui-bench.ts";
import { cuttingFetch } from "../http/ag-ui/cut.ts";
import { script } from "../support/engine.ts";

let bench: AgUiBench;
let url: string;
beforeAll(async () => {
  bench = await openAgUi();
  url = `${bench.url}/ag-ui/scripted`;
});
afterAll(() => bench.close());

function dataOf(stream: string): string[] {
  return stream.split("\n").filter((line) => /^(data|id):/.test(line));
}

function post(fetch: ReturnType<typeof createResumingFetch>, body: object): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
}

describe("the resuming fetch", () => {
  it("returns the bytes of the uncut stream for every position of the cut", async () => {
    const body = input("cuts", script({ say: "one two three — drei" }, { shell: "echo hi" }));
    const whole = await (await post(createResumingFetch(), body)).text();
    for (const bytes of [10, 400, 401, 402, 403, 404, 800, 1200]) {
      const { fetch, seen } = cuttingFetch(1, bytes);
      const text = await (await post(createResumingFetch({ fetch }), body)).text();
      expect(dataOf(text)).toEqual(dataOf(whole));
      expect(seen).toHaveLength(2);
    }
  });

  it("reads lines that a proxy ends with CR LF", async () => {
    const body = input("endings", script({ say: "one two" }, { shell: "echo hi" }));
    const whole = await (await post(createResumingFetch(), body)).text();
    let calls = 0;
    const proxy = createServer((request, response) => {
      const last = request.headers["last-event-id"];
      const headers = { "content-type": "application/json", ...(last && { "last-event-id": String(last) }) };
      void fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
        .then((answer) => answer.text())
        .then((text) => {
          calls += 1;
          const told = text.replaceAll("\n", "\r\n");
          response.writeHead(200, { "content-type": "text/event-stream" });
          response.write(calls === 1 ? told.slice(0, 500) : told, () => response.destroy());
        });
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const { port } = proxy.address() as AddressInfo;
    const through = createResumingFetch({
      tries: 2,
      fetch: (_url, init) => fetch(`http://127.0.0.1:${port}`, init),
    });
    const text = await (await post(through, body)).text();
    proxy.close();
    expect(dataOf(text)).toEqual(dataOf(whole));
    expect(calls).toBe(2);
  });

  it("passes other responses through", async () => {
    const answer = await post(createResumingFetch(), { threadId: "x" });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ type: "urn:sluice:error:invalid_request" });
  });

  it("ends with its client", async () => {
    const agent = new HttpAgent({ url, threadId: "aborted", fetch: createResumingFetch() });
    agent.addMessage({ id: "u1", role: "user", content: script({ say: "a" }, { shell: "sleep 64" }) });
    const running = agent.runAgent();
    await vi.waitUntil(() => agent.messages.length > 1, { timeout: 20_000 });
    agent.abortRun();
    await running;
    expect((await bench.test.engine.info("aborted")).status).toBe("running");
  });

  it("fails if the run cannot be resumed", async () => {
    const body = input("gone", script({ say: "a b c" }));
    let calls = 0;
    const cutOnce = (later: () => Response) => {
      const { fetch: cut } = cuttingFetch(1, 400);
      calls = 0;
      return createResumingFetch({
        tries: 2,
        fetch: async (to, init) => {
          calls += 1;
          return calls === 1 ? cut(to, init) : later();
        },
      });
    };
    const unknown = cutOnce(() => new Response("", { status: 404 }));
    await expect(post(unknown, body).then((answer) => answer.text())).rejects.toThrow("404");
    expect(calls).toBe(2);
    const away = cutOnce(() => {
      throw new TypeError("fetch failed");
    });
    await expect(post(away, body).then((answer) => answer.text())).rejects.toThrow("does not come back");
    expect(calls).toBe(4);
  });
});
