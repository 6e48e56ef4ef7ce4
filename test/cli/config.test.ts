import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readConfig } from "../../src/cli/config.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { lines, script, Workbench } from "./workbench.ts";

let bench: Workbench;
let folder: string;

beforeEach(() => {
  bench = new Workbench();
  folder = join(bench.folder, ".config", "sluice");
  mkdirSync(folder, { recursive: true });
});

afterEach(() => bench.close());

function write(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}

const read = () => readConfig({ HOME: bench.folder });

describe("the config file", () => {
  it("is JSON or TOML, and need not exist", async () => {
    expect(await read()).toEqual({});
    write("config.toml", 'server = "http://127.0.0.1:1"\npermissionMode = "plan"\n');
    expect(await read()).toEqual({ server: "http://127.0.0.1:1", permissionMode: "plan" });
    const elsewhere = { HOME: bench.folder, XDG_CONFIG_HOME: join(bench.folder, "elsewhere") };
    expect(await readConfig(elsewhere)).toEqual({});
    write("config.json", "{}");
    await expect(read()).rejects.toThrow(/two config files.*config\.json.*config\.toml/);
  });

  it.each([
    { text: "", line: 1 },
    { text: "{\n}\n}", line: 3 },
    { text: '{\n  "agent": "claude",\n}', line: 3 },
    { text: '{\n  "agent": "claude"\n  "model": "x"\n}', line: 3 },
    { text: "{\n  \"agent\": 'claude'\n}", line: 2 },
    { text: '{ "agent": "claude" ', line: 1 },
    { text: '{\n  "agent": "clau\nde"\n}', line: 2 },
    { text: '{\n  "a": [1, {"b": tru}]\n}', line: 2 },
  ])("names the file and the line of broken JSON: $text", async ({ text, line }) => {
    const file = write("config.json", text);
    await expect(read()).rejects.toThrow(`${file}, line ${line}: this is not JSON.`);
  });

  it.each([
    { text: 'agent = "claude"\nmodel = ', line: 2 },
    { text: "agent", line: 1 },
    { text: 'agent = "a"\n\nagent = "b"', line: 3 },
  ])("names the file and the line of broken TOML: $text", async ({ text, line }) => {
    const file = write("config.toml", text);
    await expect(read()).rejects.toThrow(`${file}, line ${line}: this is not TOML: `);
  });

  it.each([
    {
      name: "config.json",
      text: '{\n  "agent": "claude",\n  "agnet": "x"\n}',
      line: 3,
      why: /no key "agnet".*agent/,
    },
    { name: "config.json", text: '{\n  "agent": 7\n}', line: 2, why: /"agent" has to be a text/ },
    {
      name: "config.toml",
      text: 'model = "m"\npermissionMode = "all"',
      line: 2,
      why: /one of default, plan/,
    },
    { name: "config.json", text: "[]", line: 1, why: /one object/ },
    { name: "config.json", text: '{"__proto__": {"agent": "x"}}', line: 1, why: /no key "__proto__"/ },
  ])("names the line of a wrong value: $text", async ({ name, text, line, why }) => {
    const file = write(name, text);
    await expect(read()).rejects.toThrow(`${file}, line ${line}: `);
    await expect(read()).rejects.toThrow(why);
  });

  it("keeps a token from others", async () => {
    const file = write("config.json", '{"token": "secret-token"}');
    chmodSync(file, 0o644);
    await expect(read()).rejects.toThrow(/Others can read the token.*chmod 600/);
  });

  it("stops a command with a clear error", async () => {
    const file = write("config.json", "{");
    const { code, out, err } = await bench.run(["run", script({ say: "hi" })]);
    expect({ code, out }).toEqual({ code: 2, out: "" });
    expect(err).toBe(`sluice: ${file}, line 1: this is not JSON.\n`);
  });

  it("gives defaults to a new session; options beat them", async () => {
    write(
      "config.toml",
      'agent = "scripted"\nmodel = "from-file"\npermissionMode = "plan"\nsandbox = "local"\n',
    );
    await bench.run(["run", "--session", "a", "--permission-mode", "default", script({ say: "hi" })]);
    const [session] = lines((await bench.run(["sessions", "--json"])).out);
    expect(session).toMatchObject({ model: "from-file", permissionMode: "default", sandbox: "local" });
  });
});

describe("the server of the config file", () => {
  let server: TestServer;
  beforeEach(async () => {
    server = await startServer();
  });
  afterEach(() => server.close());

  it("is used by every command; the environment and options beat it", async () => {
    write("config.json", JSON.stringify({ server: server.url, token: server.token, agent: "scripted" }));
    const ran = await bench.run(["run", "--session", "there", script({ say: "on the server" })]);
    expect(ran).toMatchObject({ code: 0, err: "" });
    expect((await server.client.sessions.get("there")).directory).toBe(bench.work);
    expect((await bench.run(["sessions"])).out).toContain("there");
    expect((await bench.run(["send", "there", script({ say: "more" })])).out).toContain("more");
    const other = await bench.run(["sessions"], { env: { SLUICE_URL: "http://127.0.0.1:9" } });
    expect(other).toMatchObject({ code: 1, err: expect.stringContaining("127.0.0.1:9") });
    const third = await bench.run(["sessions", "--server", "http://127.0.0.1:10"], {
      env: { SLUICE_URL: "http://127.0.0.1:9" },
    });
    expect(third.err).toContain("127.0.0.1:10");
  });

  it("continues the last session there with run -c", async () => {
    const env = { SLUICE_URL: server.url, SLUICE_TOKEN: server.token };
    const run = (...args: string[]) => bench.run(["run", ...args], { env });
    await run("--agent", "scripted", "--session", "one", script({ say: "1" }));
    await run("--agent", "scripted", "--session", "two", script({ say: "2" }));
    await run("--session", "one", script({ say: "again" }));
    const { out, code } = await run("-c", script({ say: "$history" }));
    expect(code).toBe(0);
    expect(out).toContain("session one");
    const killed = await run("-c", "--agent", "nobody", "hi");
    expect(killed.code).toBe(1);
  });
});

describe("sluice run -c", () => {
  it("continues the last session of the data folder, and begins one without any", async () => {
    const first = await bench.run(["run", "-c", "--agent", "scripted", script({ say: "first" })]);
    expect(first).toMatchObject({ code: 0, err: expect.stringContaining("no earlier session") });
    const second = await bench.run(["run", "-c", script({ say: "second" })]);
    expect(second).toMatchObject({ code: 0, err: "" });
    const [session, ...others] = lines((await bench.run(["sessions", "--json"])).out);
    expect(others).toEqual([]);
    expect((await bench.run(["tail", String(session?.["sessionId"])])).out).toMatch(/first[\s\S]*second/);
  });
});
