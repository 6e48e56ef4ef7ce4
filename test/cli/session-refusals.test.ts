import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { Workbench } from "./workbench.ts";

let bench: Workbench;
let server: TestServer;

beforeAll(async () => {
  bench = new Workbench();
  server = await startServer({ data: bench.data });
  await server.client.sessions.create("over", { agent: "scripted" });
  await server.client.terminate("over");
});

afterAll(async () => {
  await server.close();
  await bench.close();
});

describe("a command on a session, with bad input:", () => {
  const commands = [
    ["send", "ID", "hi"],
    ["answer", "ID", "perm_x", "once"],
    ["interrupt", "ID"],
    ["exec", "ID", "--", "ls"],
    ["pause", "ID"],
    ["resume", "ID"],
    ["port", "ID", "80"],
    ["rm", "ID", "--yes"],
    ["attach", "ID"],
    ["open", "ID"],
    ["usage", "ID"],
  ];

  it.each(commands)("%s: an unknown session", async (...args) => {
    const { code, out, err } = await bench.run(args.map((word) => (word === "ID" ? "nobody" : word)));
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/There is no such session.*"nobody" is not in .*sessions`/);
  });

  it.each(commands)("%s: a wrong token", async (...args) => {
    const env = { SLUICE_URL: server.url, SLUICE_TOKEN: "wrong-token" };
    const { code, out, err } = await bench.run(args, { env });
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/The token is wrong.*SLUICE_TOKEN/);
    expect(err).not.toContain("wrong-token");
  });

  it.each(commands)("%s: no server", async (...args) => {
    const [name = "", ...rest] = args;
    const { code, out, err } = await bench.run([name, "--server", "http://127.0.0.1:9", ...rest]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/No answer from http:\/\/127\.0\.0\.1:9.*sluice serve/);
  });

  it.each([
    ["send", "ID", "hi"],
    ["exec", "ID", "--", "ls"],
    ["pause", "ID"],
    ["port", "ID", "80"],
    ["attach", "ID"],
  ])("%s: an ended session", async (...args) => {
    const { code, out, err } = await bench.run(args.map((word) => (word === "ID" ? "over" : word)));
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/ended/);
  });

  it.each(["", ".", ".."])("an id that no session has: %j", async (id) => {
    const tried = [
      ["send", id, "hi"],
      ["rm", id, "--yes"],
      ["tail", id],
    ];
    for (const { code, out, err } of await Promise.all(tried.map((args) => bench.run(args)))) {
      expect({ code, out }).toEqual({ code: 1, out: "" });
      expect(err).toMatch(/There is no such session/);
    }
  });

  it("a token that the folder's server refuses: the folder's own does not take its place", async () => {
    await server.client.sessions.create("kept", { agent: "scripted" });
    const { id, token } = await server.client.tokens.create({ scope: "read" });
    const revoked = { SLUICE_TOKEN: token };
    expect(await bench.run(["sessions"], { env: revoked })).toMatchObject({ code: 0 });
    await server.client.tokens.revoke(id);
    for (const args of [["rm", "kept", "--yes"], ["sessions"], ["token", "create", "--scope", "admin"]]) {
      const { code, out, err } = await bench.run(args, { env: revoked });
      expect({ code, out }).toEqual({ code: 1, out: "" });
      expect(err).toMatch(/refuses the token.*SLUICE_TOKEN/);
      expect(err).not.toContain(token);
    }
    expect(await bench.run(["rm", "kept", "--yes"])).toMatchObject({ code: 0 });
  });

  it("a server's URL of another protocol, or with a password", async () => {
    const other = await bench.run(["sessions", "--server", "ftp://example.com"]);
    expect(other).toMatchObject({ code: 2, out: "", err: expect.stringContaining("is not a server's URL") });
    const secret = await bench.run(["sessions", "--server", "http://me:hidden@127.0.0.1:9"]);
    expect(secret).toMatchObject({ code: 2, out: "", err: expect.stringContaining("SLUICE_TOKEN") });
    expect(secret.err).not.toContain("hidden");
  });

  it("two words for one session", async () => {
    const { code, err } = await bench.run(["run", "-c", "--session", "x", "hi"]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringMatching(/--continue.*--session/) });
  });

  it("a list of tokens where nothing is makes no folder", async () => {
    const data = join(bench.folder, "nowhere");
    for (const args of [["list"], ["revoke", "tok_x"]]) {
      const { code, err } = await bench.run(["token", ...args, "--data", data]);
      expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(`no data in ${data}`) });
    }
    expect(existsSync(data)).toBe(false);
    const unknown = await bench.run(["token", "revoke", "tok_x"]);
    expect(unknown).toMatchObject({ code: 1, err: expect.stringContaining("sluice token list`") });
  });

  it.each(["send", "answer", "exec", "port", "rm", "attach"])("%s: no arguments", async (name) => {
    expect(await bench.run([name])).toMatchObject({ code: 2, out: "" });
  });
});
