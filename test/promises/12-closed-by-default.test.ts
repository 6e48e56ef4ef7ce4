import { readFile, stat } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { processesWith, script } from "../support/engine.ts";
import { readFrames } from "../support/sse.ts";
import { startServer, type TestServer } from "../support/server.ts";

describe("promise 12: closed by default", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer({ env: { OPENAI_API_KEY: "sk-of-the-server", SOME_SECRET: "hush-hush" } });
    await server.client.sessions.create("s", { agent: "scripted" });
  });
  afterAll(() => server.close());

  it("generates a token, keeps it private, and requires it", async () => {
    expect(server.token.length).toBeGreaterThanOrEqual(32);
    expect((await stat(join(server.data, "token"))).mode & 0o777).toBe(0o600);
    expect((await stat(server.data)).mode & 0o077).toBe(0);
    for (const authorization of ["", "Bearer wrong", `Basic ${server.token}`, `Bearer ${server.token}x`]) {
      const response = await fetch(`${server.url}/v1/sessions`, {
        headers: authorization === "" ? {} : { authorization },
      });
      expect(response.status, authorization).toBe(401);
    }
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    expect((await server.fetch("/v1/sessions")).status).toBe(200);
    expect(server.stderr()).not.toContain(server.token);
  });

  it("listens on loopback alone", async () => {
    const tcp = await readFile("/proc/net/tcp", "utf8");
    const port = Number(new URL(server.url).port).toString(16).toUpperCase().padStart(4, "0");
    const listening = tcp.split("\n").filter((line) => line.includes(`:${port} 00000000:0000 0A`));
    expect(listening).toHaveLength(1);
    expect(listening[0]).toContain(`0100007F:${port}`);
  });

  it("refuses a foreign Host and a foreign Origin", async () => {
    expect(await statusOf(server, { host: "evil.example" })).toBe(421);
    expect(await statusOf(server, { origin: "https://evil.example" }, "POST")).toBe(403);
    expect(await statusOf(server, {})).toBe(200);
  });

  it("gives the agent none of the server's environment, and shows no token in a process list", async () => {
    await server.client.sendMessage(
      "s",
      script({ shell: "env; cat /proc/$PPID/environ | tr '\\0' '\\n'; ps axww -o args 2>/dev/null" }),
    );
    const frames = await readFrames(server, "s", {
      after: 0,
      until: ({ data }) => data.includes('"type":"turn.ended"'),
    });
    const text = frames.map((frame) => frame.data).join("\n");
    for (const secret of ["sk-of-the-server", "hush-hush", server.token]) expect(text).not.toContain(secret);
    for (const pid of await processesWith(server.data)) {
      expect(await readFile(`/proc/${pid}/cmdline`, "utf8")).not.toContain(server.token);
    }
  });

  it("redacts the token from the output of an agent", async () => {
    const { eventCount: after } = await server.client.sessions.get("s");
    await server.client.sendMessage("s", script({ shell: `cat '${join(server.data, "token")}'` }));
    const frames = await readFrames(server, "s", {
      after,
      query: "&include_raw=true",
      until: ({ data }) => data.includes('"type":"turn.ended"'),
    });
    expect(frames.map((frame) => frame.data).join("\n")).not.toContain(server.token);
  });
});

function statusOf(server: TestServer, headers: Record<string, string>, method = "GET"): Promise<number> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const call = request(
      {
        hostname,
        port,
        method,
        path: "/v1/sessions/s",
        headers: { authorization: `Bearer ${server.token}`, ...headers },
      },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    call.on("error", reject);
    call.end(method === "POST" ? "{}" : undefined);
  });
}
