import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createToolServer } from "../../src/tools/index.ts";
import { openBench, RUN, LISTED, type ToolBench } from "./bench.ts";

describe("the listener", () => {
  let bench: ToolBench;
  beforeEach(async () => {
    bench = await openBench();
  });
  afterEach(() => bench.close());

  it("listens only on loopback, and only when a run needs it", async () => {
    expect(await readdir(bench.folder)).toEqual([]);
    const { url, host, token } = await bench.server.open(RUN);
    expect(host).toMatch(/^127\.0\.0\.1:\d+$/);
    expect(url.startsWith(`http://${host}/`)).toBe(true);
    const answer = await ask(`${url}/tools`, token);
    expect(await answer.json()).toEqual({ tools: [LISTED] });
  });

  it("answers nothing without the run's own token", async () => {
    const { url, token } = await bench.server.open(RUN);
    const other = await bench.server.open({ ...RUN, process: 2 });
    const older = await bench.server.open({ ...RUN, createdAt: 1 });
    const flipped = (token.startsWith("0") ? "1" : "0") + token.slice(1);
    const wrong = [undefined, "", "00", flipped, `${token}00`, token.slice(2), other.token, older.token];
    for (const given of wrong) {
      for (const [method, path] of [
        ["GET", "tools"],
        ["PUT", "calls/12345678"],
        ["DELETE", "calls/12345678"],
      ] as const) {
        const answer = await ask(`${url}/${path}`, given, { method });
        expect([answer.status, await answer.text()], `${method} ${given}`).toEqual([401, "{}"]);
      }
    }
    // A valid token of an ended run gets the same answer as a wrong one.
    const over = await ask(`${other.url}/tools`, other.token);
    expect([over.status, await over.text()]).toEqual([401, "{}"]);
    expect((await ask(new URL("/", url).href, token)).status).toBe(401);
    expect(bench.application.calls.size).toBe(0);
  });

  it("refuses malformed and oversized calls", async () => {
    const { url, token } = await bench.server.open(RUN);
    const put = (path: string, body: string): Promise<Response> =>
      ask(`${url}/${path}`, token, { method: "PUT", body });
    expect((await put("calls/12345678", "nonsense")).status).toBe(400);
    expect((await put("calls/12345678", '{"input":{}}')).status).toBe(400);
    expect((await put("calls/x", '{"name":"weather"}')).status).toBe(404);
    expect((await ask(`${url}/else`, token)).status).toBe(404);
    const long = JSON.stringify({ name: "weather", input: { text: "x".repeat(33 * 1024 * 1024) } });
    const answer = await put("calls/12345678", long).catch(() => undefined);
    expect(answer?.status ?? 413).toBe(413);
    expect(bench.application.calls.size).toBe(0);
  });

  it("has the same port and takes the same tokens after a restart, and keeps none of them", async () => {
    const before = await bench.server.open(RUN);
    await bench.restart();
    expect((await ask(`${before.url}/tools`, before.token)).status).toBe(200);
    expect(await bench.server.open(RUN)).toEqual(before);
    const key = await stat(join(bench.folder, "key"));
    expect(key.mode & 0o777).toBe(0o600);
    for (const entry of await readdir(bench.folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const name = join(entry.parentPath, entry.name);
      const content = await readFile(name);
      expect(content.includes(before.token), name).toBe(false);
      expect(content.includes(Buffer.from(before.token, "hex")), name).toBe(false);
    }
  });

  it("a second engine on the folder has a port of its own, and the first one's once that is free", async () => {
    const first = await bench.server.open(RUN);
    const second = createToolServer({ folder: bench.folder, runs: bench.application });
    const own = await second.open(RUN);
    expect(own.host).not.toBe(first.host);
    expect(own.token).toBe(first.token);
    await bench.server.close();
    await expect(ask(`${first.url}/tools`, first.token)).rejects.toThrow();
    await second.reopen(RUN);
    expect((await ask(`${first.url}/tools`, first.token)).status).toBe(200);
    expect((await ask(`${own.url}/tools`, own.token)).status).toBe(200);
    await second.close();
  });

  it("two that start together make one key", async () => {
    const servers = Array.from({ length: 4 }, () =>
      createToolServer({ folder: bench.folder, runs: bench.application }),
    );
    const tokens = await Promise.all(servers.map(async (server) => (await server.open(RUN)).token));
    expect(new Set(tokens).size).toBe(1);
    expect(await readdir(join(bench.folder, "ports"))).toHaveLength(4);
    await Promise.all(servers.map((server) => server.close()));
  });
});

function ask(url: string, token: string | undefined, init: RequestInit = {}): Promise<Response> {
  return fetch(url, { ...init, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });
}
