import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { ended, printed, script, Workbench } from "../cli/workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
/** Whether this test can run the command as an unprivileged user. */
const canBeAnother =
  process.getuid?.() === 0 && parentsOf(BIN).every((folder) => (statSync(folder).mode & 0o005) === 0o005);
let bench: Workbench;
beforeEach(() => {
  bench = new Workbench();
});
afterEach(() => bench.close());

describe("a data folder of a newer version", () => {
  it.each([
    ["serve", ["serve", "--port", "0"]],
    ["run", ["run", "hello"]],
    ["export", ["export", "s"]],
  ])("%s says so, says what to do, and touches nothing", async (_, args) => {
    await bench.run(["run", "--session", "s", script({ say: "old words" })]);
    const database = new Database(join(bench.data, "log.db"));
    database.exec("INSERT INTO migrations (version, applied_at) VALUES (99, 0)");
    database.close();
    const before = fingerprintOf(bench.data);
    const { code, out, err } = await bench.run(args, { env: { SLUICE_URL: "" } });
    expect(code).toBe(1);
    expect(out).toBe("");
    expect(err).toContain("is of version 99; this build of sluice knows version");
    expect(err).toContain("--data");
    expect(err).not.toContain("    at ");
    expect(fingerprintOf(bench.data)).toEqual(before);
  });
});

describe("a data folder that cannot be used", () => {
  it.each([
    ["below a file", () => join(bench.work, "file", "data")],
    ["where nothing can be made", () => "/proc/sluice-data"],
    ["that is a file itself", () => join(bench.work, "file")],
  ])("%s is named, with what to do", async (_, path) => {
    writeFileSync(join(bench.work, "file"), "mine");
    for (const args of [
      ["serve", "--port", "0"],
      ["run", "hello"],
    ]) {
      const { code, out, err } = await bench.run([...args, "--data", path()]);
      expect(code).toBe(1);
      expect(out).toBe("");
      expect(err).toContain(path());
      expect(err).toContain("--data");
      expect(err).not.toContain("    at ");
    }
    expect(readFileSync(join(bench.work, "file"), "utf8")).toBe("mine");
  });

  it("with files of other users is not closed to them", async () => {
    const shared = join(bench.work, "shared");
    mkdirSync(shared);
    chmodSync(shared, 0o755);
    expect((await bench.run(["run", "--data", shared, script({ say: "x" })])).code).toBe(0);
    expect(statSync(shared).mode & 0o777).toBe(0o700);
    const used = join(bench.work, "used");
    mkdirSync(used);
    writeFileSync(join(used, "notes"), "mine");
    chmodSync(used, 0o755);
    const { code, err } = await bench.run(["run", "--data", used, "hello"]);
    expect([code, err]).toEqual([1, expect.stringContaining("holds other things")]);
    expect(statSync(used).mode & 0o777).toBe(0o755);
    expect(readdirSync(used)).toEqual(["notes"]);
  });

  it("that is empty and readable is closed to others by serve", async () => {
    const empty = join(bench.work, "empty");
    mkdirSync(empty, { mode: 0o755 });
    const child = bench.start(["serve", "--port", "0", "--sandbox", "local", "--data", empty]);
    const end = ended(child);
    const said = await Promise.race([printed(child, /\n/), end.then(({ err }) => err)]);
    expect(said).toContain("sluice listening on");
    expect(statSync(empty).mode & 0o077).toBe(0);
    child.kill("SIGTERM");
    await end;
  });

  it.runIf(canBeAnother)("that this user may not read is not called empty", async () => {
    await bench.run(["run", script({ say: "x" })]);
    chmodSync(bench.folder, 0o755);
    const argv = "setpriv --reuid 20001 --regid 20001 --clear-groups".split(" ");
    const sessions = await bench.run([], { argv: [...argv, BIN, "sessions"] });
    expect([sessions.code, sessions.err]).toEqual([1, expect.stringContaining("may not look into")]);
    const checkup = await bench.run([], { argv: [...argv, BIN, "doctor", "--json"] });
    expect(JSON.parse(checkup.out)).toMatchObject({ data: { ok: false } });
  });

  it.runIf(canBeAnother)("is found for a user without an entry and a home", async () => {
    const argv = "env -u HOME -u XDG_DATA_HOME setpriv --reuid 20001 --regid 20001 --clear-groups".split(" ");
    const { code, err } = await bench.run([], { argv: [...argv, BIN, "run", "hello"] });
    expect([code, err]).toEqual([1, expect.stringMatching(/^sluice: The data folder .* Choose another one/)]);
  });

  it("whose log.db is another file is left alone", async () => {
    mkdirSync(bench.data, { recursive: true });
    writeFileSync(join(bench.data, "log.db"), "these are my notes, and no database\n".repeat(200));
    const before = readFileSync(join(bench.data, "log.db"));
    const { code, err } = await bench.run(["serve", "--port", "0"]);
    expect(code).toBe(1);
    expect(err).toContain("is not a sluice database");
    expect(readFileSync(join(bench.data, "log.db"))).toEqual(before);
  });
});

describe.each(["sandboxes", "spools"])("a file in place of the folder %s", (name) => {
  it("is named in the errors of the calls that need it, and blocks nothing else", async () => {
    const server = bench.start(["serve", "--port", "0", "--no-token"]);
    const url = (await printed(server, /\n/)).trim().split(" ").at(-1) ?? "";
    const client = createClient({ url });
    rmSync(join(bench.data, name), { recursive: true, force: true });
    writeFileSync(join(bench.data, name), "mine");
    await client.sessions.create("s", { agent: "scripted" });
    await client.sendMessage("s", script({ say: "x" }));
    const words = `"${name}" in the server's data folder is not a folder. Move it away, and try again.`;
    for await (const event of client.subscribe("s", { extensions: true })) {
      if (event.type === "error") expect(event.data.message).toBe(words);
      if (event.type !== "turn.ended") continue;
      expect(event.data).toMatchObject({ stop_reason: "agent_lost", error: { message: words } });
      break;
    }
    await expect(client.runCommand("s", { command: "true" })).rejects.toThrow(words);
    rmSync(join(bench.data, name));
    await client.sendMessage("s", script({ say: "y" }));
    for await (const event of client.subscribe("s", { extensions: true }))
      if (event.type === "turn.ended" && event.data.status === "completed") break;
    if (name === "spools") {
      rmSync(join(bench.data, name), { recursive: true });
      writeFileSync(join(bench.data, name), "mine");
    }
    await client.sessions.delete("s");
    const end = ended(server);
    server.kill("SIGTERM");
    expect((await end).code).toBe(0);
  });
});

describe("a token file with wrong content", () => {
  const put = (content: string | Buffer): void => {
    mkdirSync(bench.data, { recursive: true, mode: 0o700 });
    writeFileSync(join(bench.data, "token"), content, { mode: 0o644 });
  };

  it.each([
    ["nothing", ""],
    ["white space", " \n\n"],
    ["two words", "one two\n"],
    ["two lines", "one\ntwo\n"],
    ["control characters", "to\u0007ken\n"],
    ["letters that no header carries", "tökën\n"],
    ["bytes that are no text", Buffer.from([0xff, 0xfe, 0x00, 0x80])],
  ])(
    "%s: the server does not start with a lock that no key fits, and says what to do",
    async (_, content) => {
      put(content);
      const { code, out, err } = await bench.run(["serve", "--port", "0"]);
      expect([code, out]).toEqual([1, ""]);
      expect(err).toContain(join(bench.data, "token"));
      expect(err).toMatch(/remove|delete/i);
      expect(err).not.toContain("    at ");
      if (String(content).trim() !== "") expect(err).not.toContain(String(content).trim());
      expect(readFileSync(join(bench.data, "token"))).toEqual(Buffer.from(content));
    },
  );

  it("a folder in its place is reported too", async () => {
    mkdirSync(join(bench.data, "token"), { recursive: true });
    const { code, err } = await bench.run(["serve", "--port", "0"]);
    expect(code).toBe(1);
    expect(err).toContain(join(bench.data, "token"));
    expect(err).not.toContain("    at ");
  });

  it.each(["two words", "tökën", ""])("--token %j is refused before anything is served", async (token) => {
    const { code, out, err } = await bench.run(["serve", "--port", "0", "--token", token]);
    expect([code, out]).toEqual([2, ""]);
    expect(err).toMatch(/token/);
  });

  it("one written by hand works, and is closed to others", async () => {
    put("  my-own.token_1~+/=\r\n");
    const server = bench.start(["serve", "--port", "0"]);
    const url = (await printed(server, /\n/)).trim().split(" ").at(-1) ?? "";
    expect(await createClient({ url, token: "my-own.token_1~+/=" }).sessions.list()).toEqual({
      sessions: [],
    });
    expect(statSync(join(bench.data, "token")).mode & 0o777).toBe(0o600);
    const end = ended(server);
    server.kill("SIGTERM");
    expect((await end).code).toBe(0);
  });
});

describe("a port in use", () => {
  it("is reported, and the attempt disturbs no running session", async () => {
    const first = bench.start(["serve", "--port", "0", "--no-token"]);
    const url = (await printed(first, /\n/)).trim().split(" ").at(-1) ?? "";
    const client = createClient({ url });
    await client.sessions.create("s", { agent: "scripted" });
    await client.sendMessage("s", script({ say: "before" }, { shell: "echo on; sleep 1" }, { say: "after" }));
    for await (const event of client.subscribe("s"))
      if (event.type === "item.delta" && event.data.delta === "on\n") break;
    const dead = ended(first);
    first.kill("SIGKILL");
    await dead;

    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, err } = await bench.run(["serve", "--port", String(port), "--no-token"]);
    other.close();
    expect(code).toBe(1);
    expect(err).toContain(`Port ${port} on 127.0.0.1 is in use. Use --port 0`);

    const second = bench.start(["serve", "--port", String(port), "--no-token"]);
    await printed(second, /\n/);
    const again = createClient({ url: `http://127.0.0.1:${port}` });
    const sequences: number[] = [];
    for await (const event of again.subscribe("s", { extensions: true })) {
      sequences.push(event.sequence);
      if (event.type !== "turn.ended") continue;
      expect(event.data.status).toBe("completed");
      break;
    }
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    await again.sessions.delete("s");
    const end = ended(second);
    second.kill("SIGTERM");
    await end;
  });
});

/** Every file of the folder and what is in it. SQLite's index of its journal is memory on disk, not data. */
function fingerprintOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && !entry.name.endsWith("-shm"),
  );
  return Object.fromEntries(
    files
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path, createHash("sha256").update(readFileSync(path)).digest("hex")]),
  );
}

function parentsOf(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [] : [parent, ...parentsOf(parent)];
}
