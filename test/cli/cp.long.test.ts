import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createClient, type SluiceClient } from "../../src/client/index.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ended, printed, script, Workbench } from "./workbench.ts";

const BIN = join(import.meta.dirname, "../../bin/sluice");
const SCRIPT = "/usr/bin/script";
const ODD = ["with space.txt", `quo"te's.txt`, "new\nline.txt", "-dash", "ünï ✓.txt", "a:b", "$HOME;`x`"];
let bench: Workbench;
let server: TestServer;
let client: SluiceClient;
let count = 0;
let session: string;

beforeAll(async () => {
  server = await startServer();
  client = createClient({ url: server.url, token: server.token });
});
afterAll(() => server.close());
beforeEach(async () => {
  bench = new Workbench();
  session = `copy-${++count}`;
  await client.sessions.create(session, { agent: "scripted" });
});
afterEach(() => bench.close());

const cp = (...args: string[]) => bench.run(["cp", ...args], { env: env() });
const env = (): NodeJS.ProcessEnv => ({ SLUICE_URL: server.url, SLUICE_TOKEN: server.token });
const local = (...names: string[]): string => join(bench.work, ...names);
const remote = async (path: string): Promise<string> =>
  new TextDecoder().decode(await client.fs.read(session, path));

function makeTree(): void {
  mkdirSync(local("tree/deep/er"), { recursive: true });
  mkdirSync(local("tree/empty"));
  for (const name of ODD) writeFileSync(local("tree/deep", name), `in ${name}`);
  writeFileSync(
    local("tree/deep/er/bytes.bin"),
    Uint8Array.from({ length: 70_000 }, (_, n) => n % 256),
  );
  writeFileSync(local("tree/zero"), "");
}

describe("sluice cp", () => {
  it("copies a file in both directions without output", async () => {
    writeFileSync(local("a.txt"), "hello");
    expect(await cp("a.txt", `${session}:`)).toMatchObject({ code: 0, out: "", err: "" });
    expect(await remote("a.txt")).toBe("hello");
    await cp("a.txt", `${session}:/workspace/sub/b.txt`);
    expect(await remote("sub/b.txt")).toBe("hello");
    await cp("a.txt", `${session}:sub`);
    await cp("a.txt", `${session}:other/`);
    expect([await remote("sub/a.txt"), await remote("other/a.txt")]).toEqual(["hello", "hello"]);

    expect(await cp(`${session}:sub/b.txt`, ".")).toMatchObject({ code: 0, out: "", err: "" });
    expect(readFileSync(local("b.txt"), "utf8")).toBe("hello");
    await cp(`${session}:a.txt`, "new/place/c.txt");
    expect(readFileSync(local("new/place/c.txt"), "utf8")).toBe("hello");
  });

  it("copies folders in both directions, with any names in them", async () => {
    makeTree();
    expect((await cp("tree", `${session}:copy`)).code).toBe(0);
    for (const name of ODD) expect(await remote(`copy/deep/${name}`)).toBe(`in ${name}`);
    expect((await cp(`${session}:copy`, "back")).code).toBe(0);
    execFileSync("diff", ["-r", local("tree"), local("back")]);
    expect(readdirSync(local("back/empty"))).toEqual([]);

    // An existing target gets the folder under its own name; with /. it gets the contents alone.
    await cp("tree/deep", `${session}:copy`);
    await cp("tree/deep/.", `${session}:flat`);
    expect(await remote("copy/deep/er/bytes.bin")).toBe(await remote("flat/er/bytes.bin"));
    await cp(`${session}:flat`, "back");
    await cp(`${session}:flat/.`, "back");
    execFileSync("diff", ["-r", local("back/flat/er"), local("back/er")]);
    await cp(`${session}:`, "all");
    expect(readdirSync(local("all"))).toEqual(expect.arrayContaining(["copy", "flat"]));
    for (const name of ODD) {
      const odd = await cp(`${session}:flat/${name}`, "./one");
      expect([name, odd.code, readFileSync(local("one"), "utf8")]).toEqual([name, 0, `in ${name}`]);
    }
  });

  it("prints a summary with --json", async () => {
    makeTree();
    symlinkSync("/etc", local("tree/link"));
    const { code, out, err } = await cp("--json", "tree", `${session}:copy`);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      from: "tree",
      to: `${session}:copy`,
      files: ODD.length + 2,
      folders: 4,
      bytes: 70_000 + ODD.reduce((sum, name) => sum + Buffer.byteLength(`in ${name}`), 0),
      skipped: [{ path: "tree/link", reason: "a link" }],
      failed: [],
    });
    expect(err).toContain("skipped tree/link: a link");
    await expect(client.fs.stat(session, "copy/link")).rejects.toMatchObject({ code: "file_not_found" });
  });

  it("skips the links of the sandbox too", async () => {
    await client.sendMessage(
      session,
      script({ shell: "ln -s /etc/passwd link; ln -s . round; echo 1 > real" }),
    );
    for await (const event of client.subscribe(session, { extensions: true }))
      if (event.type === "turn.ended") break;
    const { code, err } = await cp(`${session}:.`, "out");
    expect(code).toBe(0);
    expect(err).toContain("link: a link");
    expect(existsSync(local("out/real"))).toBe(true);
    expect(existsSync(local("out/link")) || existsSync(local("out/round"))).toBe(false);
  });

  it("follows no link in the local target", async () => {
    mkdirSync(local("outside"));
    mkdirSync(local("out"));
    writeFileSync(local("outside/file"), "mine");
    symlinkSync(local("outside"), local("out/folder"));
    await client.fs.write(session, "folder/evil", "x");
    const folder = await cp(`${session}:.`, "out");
    expect(folder.code).toBe(1);
    expect(folder.err).toContain("is a link here");
    expect(readdirSync(local("outside"))).toEqual(["file"]);

    symlinkSync(local("outside/file"), local("out/plain"));
    await client.fs.write(session, "files/plain", "x");
    await client.fs.write(session, "files/fine", "y");
    const file = await cp(`${session}:files/.`, "out");
    expect(file.code).toBe(1);
    expect(file.err).toContain("is a link here");
    expect(readFileSync(local("outside/file"), "utf8")).toBe("mine");
    expect(readFileSync(local("out/fine"), "utf8")).toBe("y");
    expect(lstatSync(local("out/plain")).isSymbolicLink()).toBe(true);
  });

  it.each(["..", "../evil", "/tmp/evil", "a/b", "", ".", "nul\0"])(
    "refuses a server that names a file %j",
    async (name) => {
      const hostile = createServer((request, response) => {
        const { pathname } = new URL(request.url ?? "", "http://x");
        const entry = { path: name, name, entryType: "file", size: 1, modified: 0 };
        response.setHeader("content-type", "application/json");
        if (pathname.endsWith("/entries")) return response.end(JSON.stringify([entry]));
        if (pathname.endsWith("/stat"))
          return response.end(JSON.stringify({ ...entry, entryType: "directory" }));
        return response.end("{}");
      }).listen(0, "127.0.0.1");
      await new Promise((resolve) => hostile.once("listening", resolve));
      const { port } = hostile.address() as AddressInfo;
      mkdirSync(local("in"));
      const { code, err } = await cp("--server", `http://127.0.0.1:${port}`, "s:x", "in/out");
      hostile.closeAllConnections();
      await new Promise((resolve) => hostile.close(resolve));
      expect(code).toBe(1);
      expect(err).toContain("is not the name of a file");
      expect([readdirSync(bench.work), readdirSync(local("in"))]).toEqual([["in"], []]);
    },
  );

  it.each([
    [["a", "b"], 2, "Neither side names a session"],
    [["x:a", "y:b"], 2, "Both sides name a session"],
    [["./x:a", "b"], 2, "Neither side names a session"],
    [["only"], 2, "missing required argument"],
    [["nobody:a", "b"], 1, `"nobody" is not in`],
    [["none", "SESSION:a"], 1, "There is no none."],
    [["SESSION:none", "a"], 1, "There is no SESSION:none."],
    [["SESSION:../../etc/passwd", "a"], 1, ""],
    [["SESSION:/etc/passwd", "a"], 1, ""],
  ])("explains %j", async (args, code, words) => {
    const named = (text: string): string => text.replace("SESSION", session);
    const result = await cp(...args.map(named));
    expect(result.code).toBe(code);
    expect(result.err).toContain(named(words));
    expect(result.err).not.toContain("    at ");
    expect(readdirSync(bench.work)).toEqual([]);
  });

  it("copies the readable files and reports the others", async () => {
    makeTree();
    await client.fs.mkdir(session, "copy/zero");
    const { code, err, out } = await cp("--json", "tree", `${session}:copy`);
    // The folder `copy` exists, so the tree goes into it under its own name.
    expect([code, err]).toEqual([0, ""]);
    const again = await cp("--json", "tree/.", `${session}:copy`);
    expect(again.code).toBe(1);
    expect(again.err).toContain("tree/./zero");
    const summary = JSON.parse(again.out) as { files: number; failed: { path: string }[] };
    expect(summary.failed.map(({ path }) => path)).toEqual(["tree/./zero"]);
    expect(summary.files).toBe((JSON.parse(out) as { files: number }).files - 1);
  });

  it("needs no server, and leaves nothing running", async () => {
    const here = (args: string[]) => bench.run(args);
    await here(["run", "--session", "own:1", "--cwd", bench.work, script({ say: "hi" })]);
    mkdirSync(local("src"));
    writeFileSync(local("src/a.txt"), "alone");
    expect(await here(["cp", "src", "own:1:into"])).toMatchObject({ code: 0, out: "", err: "" });
    expect(readFileSync(local("into/a.txt"), "utf8")).toBe("alone");
    expect((await here(["cp", "own:1:into/a.txt", "../back.txt"])).code).toBe(0);
    expect(readFileSync(join(bench.folder, "back.txt"), "utf8")).toBe("alone");
    // A folder into itself ends.
    expect((await here(["cp", ".", "own:1:src/inner"])).code).toBe(0);
    expect(existsSync(local("src/inner/src/inner"))).toBe(false);
    const nobody = await bench.run(["cp", "src", "s:x"], { env: { XDG_DATA_HOME: local("none") } });
    expect([nobody.code, existsSync(local("none"))]).toEqual([1, false]);
    expect(nobody.err).toContain("there is no data in");
  });

  it("names the process that holds the session", async () => {
    const running = bench.start(["run", "--session", "mine", script({ say: "go" }, { sleep: 60_000 })]);
    running.stdin?.end();
    const end = ended(running);
    await printed(running, /go/);
    writeFileSync(local("a"), "");
    const { code, err } = await bench.run(["cp", "a", "mine:"]);
    expect(code).toBe(1);
    expect(err).toContain(`is being run by process ${running.pid}`);
    expect(err).toContain("--server URL");
    running.kill("SIGINT");
    expect((await end).code).toBe(130);
  });

  it("has examples in its help", async () => {
    const { code, out } = await bench.run(["cp", "--help"]);
    expect(code).toBe(0);
    expect(out).toContain("sluice cp ./src my-session:src");
    expect(out).toContain("Exit codes:");
  });
});

describe.skipIf(!existsSync(SCRIPT))("sluice cp at a terminal", () => {
  it("updates one status line and ends with a summary", async () => {
    makeTree();
    const words = [BIN, "cp", "tree", `${session}:copy`].map((word) => `'${word}'`).join(" ");
    const child = bench.start([], {
      argv: [SCRIPT, "-qefc", words, "/dev/null"],
      env: { ...env(), TERM: "xterm", SHELL: "/bin/sh" },
    });
    child.stdin?.end();
    const { code, out } = await ended(child);
    expect(code).toBe(0);
    const [, ...states] = out.split("\r\u001B[K");
    expect(states[0]).toMatch(/^(found \d+ files?|\d+ of 9 files · [\d.]+ k?B of 70 kB)$/);
    expect(out).toContain(`Copied 9 files, 70 kB, to ${session}:copy`);
    expect(out.trimEnd().split("\n")).toHaveLength(1);
  });
});
