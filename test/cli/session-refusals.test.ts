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

  it.each(["send", "answer", "exec", "port", "rm", "attach"])("%s: no arguments", async (name) => {
    expect(await bench.run([name])).toMatchObject({ code: 2, out: "" });
  });
});
