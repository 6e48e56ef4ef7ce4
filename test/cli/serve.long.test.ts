import type { ChildProcess } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import Anthropic, { AuthenticationError, NotFoundError } from "@anthropic-ai/sdk";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseDuration, parseSize } from "../../src/cli/terminal/amount.ts";
import { createClient } from "../../src/client/index.ts";
import { ended, printed, script, Workbench } from "./workbench.ts";

let bench: Workbench;

beforeEach(() => {
  bench = new Workbench();
});

afterEach(() => bench.close());

async function serve(
  args: readonly string[] = [],
): Promise<{ child: ChildProcess; url: string; token: string }> {
  const child = bench.start(["serve", "--port", "0", ...args]);
  const line = await printed(child, /\n/);
  const url = /^sluice listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(line)?.[1] ?? line;
  return {
    child,
    url,
    token: args.includes("--no-token") ? "" : readFileSync(join(bench.data, "token"), "utf8").trim(),
  };
}

async function stop(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM") {
  const end = ended(child);
  child.kill(signal);
  return end;
}

describe("sluice serve", () => {
  it("prints one line once it is ready, keeps its token to itself, and drains at SIGTERM", async () => {
    const child = bench.start(["serve", "--port", "0"]);
    const end = ended(child);
    const line = await printed(child, /\n/);
    const url = line.trim().split(" ").at(-1) ?? "";
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect((await fetch(`${url}/v1/sessions`)).status).toBe(401);
    const token = readFileSync(join(bench.data, "token"), "utf8").trim();
    expect(Buffer.from(token, "base64url")).toHaveLength(32);
    expect(statSync(join(bench.data, "token")).mode & 0o777).toBe(0o600);
    child.kill("SIGTERM");
    const { code, out, err } = await end;
    expect(code).toBe(0);
    expect(out).toBe(`sluice listening on ${url}\n`);
    expect(err).toContain(join(bench.data, "token"));
    expect(out + err).not.toContain(token);
  });

  it("keeps the token over restarts, and ends at SIGINT too", async () => {
    const first = await serve();
    expect((await stop(first.child, "SIGINT")).code).toBe(0);
    const second = await serve();
    expect(second.token).toBe(first.token);
    await stop(second.child);
  });

  it("takes --token instead, and --no-token on loopback", async () => {
    const given = bench.start(["serve", "--port", "0", "--token", "s3cret"]);
    const url = (await printed(given, /\n/)).trim().split(" ").at(-1) ?? "";
    expect(await createClient({ url, token: "s3cret" }).sessions.list()).toEqual({ sessions: [] });
    await stop(given);
    const open = await serve(["--no-token"]);
    expect(await createClient({ url: open.url }).sessions.list()).toEqual({ sessions: [] });
    await stop(open.child);
  });

  it("admits the given origins and hosts and no others", async () => {
    const page = "http://localhost:3000";
    const { url, child, token } = await serve(["--allow-origin", page, "--allow-host", "agents.example"]);
    const call = (headers: Record<string, string>): Promise<[number, string | undefined]> =>
      new Promise((resolve, reject) => {
        const sent = { ...headers, authorization: `Bearer ${token}` };
        get(`${url}/v1/sessions`, { headers: sent }, (answer) => {
          answer.resume();
          resolve([answer.statusCode ?? 0, answer.headers["access-control-allow-origin"]]);
        }).once("error", reject);
      });
    expect(await call({ origin: page })).toEqual([200, page]);
    expect(await call({ origin: "http://localhost:3001" })).toEqual([403, undefined]);
    expect(await call({ host: "agents.example" })).toEqual([200, undefined]);
    expect(await call({ host: "evil.example" })).toEqual([421, undefined]);
    await stop(child);
    for (const [args, message] of [
      [["--allow-origin", "localhost"], /looks like http/],
      [["--allow-origin", "*", "--no-token"], /every page/],
    ] as const) {
      const refused = await bench.run(["serve", "--port", "0", ...args]);
      expect([refused.code, refused.err]).toEqual([2, expect.stringMatching(message)]);
    }
  });

  it("refuses to listen without a token beyond loopback", async () => {
    const { code, err } = await bench.run(["serve", "--host", "0.0.0.0", "--no-token", "--port", "0"]);
    expect(code).toBe(2);
    expect(err).toContain("--insecure");
  });

  it("explains a port that is in use", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, err, out } = await bench.run(["serve", "--port", String(port)]);
    other.close();
    expect(code).toBe(1);
    expect(out).toBe("");
    expect(err).toMatch(new RegExp(`^sluice: Port ${port} on 127.0.0.1 is in use`));
  });

  it("explains an address that this machine does not have", async () => {
    const { code, err } = await bench.run(["serve", "--port", "0", "--host", "192.0.2.1"]);
    expect(code).toBe(1);
    expect(err).toMatch(/^sluice: 192\.0\.2\.1 is no address of this machine.*--host 127\.0\.0\.1/);
  });

  it("stops cleanly with an open reader", async () => {
    const { child, url, token } = await serve();
    const client = createClient({ url, token });
    await client.sessions.create("s", { agent: "scripted" });
    const end = ended(child);
    const stopReading = new AbortController();
    const reading = (async () => {
      for await (const { type } of client.subscribe("s", { signal: stopReading.signal }))
        if (type === "session.started") child.kill("SIGTERM");
    })().catch(() => {});
    await client.sendMessage("s", script({ say: "hi" }));
    const { code, err } = await end;
    stopReading.abort();
    expect(code).toBe(0);
    expect(err).not.toContain(`"level":"error"`);
    await reading;
  });

  it("deletes sessions beyond the retention", async () => {
    const keep = ["--keep", "30d", "--keep-bytes", "10GB"];
    const first = await serve(keep);
    const before = createClient(first);
    for (const id of ["old", "new"]) await before.sessions.create(id, { agent: "scripted" });
    await before.sessions.create("short", { agent: "scripted", ttl: 3_600 });
    await stop(first.child);
    const database = new Database(join(bench.data, "log.db"));
    for (const [id, days] of Object.entries({ old: 31, new: 29, short: 1 }))
      database
        .prepare(
          "UPDATE places SET updated_at = ? WHERE session = (SELECT ordinal FROM sessions WHERE id = ?)",
        )
        .run(Date.now() - days * 86_400_000, id);
    database.close();
    const second = await serve(keep);
    const client = createClient(second);
    await expect
      .poll(async () => (await client.sessions.list()).sessions.map(({ sessionId }) => sessionId), {
        timeout: 30_000,
      })
      .toEqual(["new"]);
    await stop(second.child);
  });

  it("explains the format of amounts", async () => {
    const { code, err } = await bench.run(["serve", "--port", "0", "--keep", "30"]);
    expect([code, err]).toEqual([2, expect.stringContaining("such as 45m, 12h or 30d")]);
    expect(["45m", "12h", "30d", "1.5h"].map(parseDuration)).toEqual([2.7e6, 4.32e7, 2.592e9, 5.4e6]);
    expect(["500MB", "10GB", "1TB"].map(parseSize)).toEqual([5e8, 1e10, 1e12]);
    for (const text of ["", "30", "d", "0d", "-1d", "30 d", "30D", "30s", "1e3d", "10GB"])
      expect(() => parseDuration(text), text).toThrow("A duration is");
    for (const text of ["", "10", "GB", "0GB", "-1MB", "10 GB", "10G", "10gb", "30d", "9".repeat(20) + "TB"])
      expect(() => parseSize(text), text).toThrow("A size is");
  });

  it.each([["70000"], ["abc"], ["-1"]])("explains the port %s", async (port) => {
    const { code, err } = await bench.run(["serve", "--port", port]);
    expect(code).toBe(2);
    expect(err).toContain("A port is a number from 0 to 65535.");
  });
});

describe("A10: sluice serve --keys", () => {
  function keep(text: string, mode = 0o600): string {
    const file = join(bench.work, "keys.json");
    writeFileSync(file, text, { mode });
    return file;
  }

  it("gives each workspace its own resources and sessions, in every dialect", async () => {
    const file = keep('{"sk-a": "team-a", "sk-b": "team-b"}');
    const { child, url, token } = await serve(["--keys", file, "--rate-limit", "600"]);
    const betaOf = (apiKey: string) => new Anthropic({ apiKey, baseURL: `${url}/anthropic` }).beta;
    const agent = await betaOf("sk-a").agents.create({ name: "ours", model: "scripted" });
    expect((await betaOf("sk-a").agents.retrieve(agent.id)).name).toBe("ours");
    await expect(betaOf("sk-b").agents.retrieve(agent.id)).rejects.toThrow(NotFoundError);
    await expect(betaOf("sk-c").agents.retrieve(agent.id)).rejects.toThrow(AuthenticationError);
    const clientOf = (key: string) => createClient({ url, token: key });
    await clientOf("sk-a").sessions.create("ours", { agent: "scripted" });
    const seenBy = async (key: string): Promise<string[]> =>
      (await clientOf(key).sessions.list()).sessions.map(({ sessionId }) => sessionId);
    expect([await seenBy("sk-a"), await seenBy("sk-b"), await seenBy(token)]).toEqual([
      ["ours"],
      [],
      ["ours"],
    ]);
    await expect(seenBy("sk-c")).rejects.toMatchObject({ status: 401 });
    expect((await stop(child)).code).toBe(0);
  });

  it.each([
    ["that others can read", '{"sk-a": "team-a"}', 0o644, "chmod 600"],
    ["that is no JSON", "sk-a", 0o600, "JSON object"],
    ["with a key that no client can send", '{"sk a": "team-a"}', 0o600, "a bad key"],
  ])("refuses a file %s", async (_, text, mode, help) => {
    const end = await ended(bench.start(["serve", "--port", "0", "--keys", keep(text, mode)]));
    expect(end.code).toBe(2);
    expect(end.err).toContain(help);
    expect(end.err).not.toContain("sk-a");
  });
});

it("A8: sluice serve --rate-limit sends Retry-After", async () => {
  const { child, url, token } = await serve(["--rate-limit", "2"]);
  const list = () => fetch(`${url}/anthropic/v1/files`, { headers: { authorization: `Bearer ${token}` } });
  expect([(await list()).status, (await list()).status]).toEqual([200, 200]);
  const refused = await list();
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  await stop(child);
});
