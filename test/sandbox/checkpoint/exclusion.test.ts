import { execFileSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCheckpoints } from "../../../src/sandbox/checkpoint/checkpoints.ts";
import { readContent, Slab } from "../../../src/sandbox/checkpoint/content.ts";
import {
  AGENT_CREDENTIALS,
  DEFAULT_EXCLUDES,
  HOME_CREDENTIALS,
} from "../../../src/sandbox/checkpoint/exclusion.ts";
import { StatCache } from "../../../src/sandbox/checkpoint/stat-cache.ts";
import { sha256 } from "../../../src/sandbox/checkpoint/storage/pack.ts";
import { Slice } from "../../../src/sandbox/host/time-slice.ts";
import { look, makeBench, makeFolder, plant } from "./bench.ts";
import { fill, start } from "./hostility.ts";

describe("the exclusions of a checkpoint", () => {
  const SECRET = "hunter2-the-secret";

  it("any credential of a home that we know of", async () => {
    const bench = makeBench();
    const patterns = [...AGENT_CREDENTIALS, ...HOME_CREDENTIALS];
    const toSecret = (n: number): string => `<${SECRET} ${n}>`;
    for (const [n, pattern] of patterns.entries()) {
      // Something in the place of each star.
      plant(bench.home, { [pattern.replace(/^\//, "").replaceAll("*", "x")]: toSecret(n) });
    }
    plant(bench.home, { ".claude/projects/p/session.jsonl": "talk 1", ".codex/sessions/s.jsonl": "talk 2" });
    await bench.checkpoints.checkpoint({ roots: bench.roots, exclude: {} });
    const stored = await bench.everything();
    expect(patterns.filter((_, n) => stored.includes(toSecret(n)))).toEqual([]);
    for (const talk of ["talk 1", "talk 2"]) expect(stored.includes(talk)).toBe(true);
  });

  it("none of the log-ins that the agents really write", async () => {
    const bench = makeBench();
    const files = [
      ".claude/.credentials.json",
      ".claude.json",
      ".codex/auth.json",
      ".gemini/oauth_creds.json",
      ".local/share/opencode/auth.json",
      ".config/opencode/auth.json",
      ".config/gh/hosts.yml",
      ".netrc",
      ".npmrc",
      ".aws/credentials",
      ".ssh/id_ed25519",
      ".scripted/mcp.json",
      "certs/server.pem",
      "certs/server.key",
      ".git-credentials",
      ".docker/config.json",
      ".bash_history",
    ];
    plant(bench.home, Object.fromEntries(files.map((file) => [file, `${SECRET} of ${file}.`])));
    await bench.checkpoints.checkpoint({ roots: bench.roots, exclude: {} });
    const stored = await bench.everything();
    expect(files.filter((file) => stored.includes(`${SECRET} of ${file}.`))).toEqual([]);
  });

  it("anything in a folder of credentials, and an agent's log-in in any root at any depth", async () => {
    const bench = makeBench();
    plant(bench.home, {
      ".ssh/config.d/x": SECRET,
      ".config/gh/hosts.yml": SECRET,
      "deep/er/server.pem": SECRET,
    });
    plant(bench.workspace, {
      ".claude/.credentials.json": SECRET,
      "sub/.codex/auth.json": SECRET,
      "tls/own.pem": "the user's",
    });
    await bench.checkpoints.checkpoint({ roots: bench.roots, exclude: {} });
    const stored = await bench.everything();
    expect(stored.includes(SECRET)).toBe(false);
    expect(stored.includes("the user's")).toBe(true);
  });

  it("files that can be made again, unless asked for; a file named like a credential in a workspace is kept", async () => {
    const bench = makeBench();
    const made = [
      "node_modules/m/i.js",
      "a/node_modules/i.js",
      "p/__pycache__/x.cpython.pyc",
      "x.pyc",
      ".cache/c",
      ".npm/n",
      ".venv/v",
      "s/venv/v",
      "temp/t",
    ];
    plant(bench.workspace, Object.fromEntries(made.map((path) => [path, SECRET])));
    plant(bench.workspace, {
      "a/temp/t": "kept 1",
      "npm.npm": "kept 2",
      ".npmrc": "kept 3",
      "x.pycx": "kept 4",
      ".git/HEAD": "kept 5",
      ".env": "kept 6",
    });
    await bench.checkpoints.checkpoint({ roots: bench.roots });
    const stored = await bench.everything();
    expect(stored.includes(SECRET)).toBe(false);
    for (let n = 1; n <= 6; n++) expect(stored.includes(`kept ${n}`)).toBe(true);
    const exclude = { ...DEFAULT_EXCLUDES, workspace: ["/a", "npm.*"] };
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots, exclude });
    const fresh = join(bench.folder, "fresh");
    await bench.checkpoints.restore(info.id, { roots: { workspace: fresh } });
    expect(Object.keys(look(fresh))).toEqual([
      ".env",
      ".git",
      ".git/HEAD",
      ".npmrc",
      "p",
      "s",
      "temp",
      "temp/t",
      "x.pycx",
    ]);
  });

  it("sockets, pipes and targets of symlinks", async () => {
    const bench = makeBench();
    writeFileSync(join(bench.folder, "outside"), SECRET);
    symlinkSync(join(bench.folder, "outside"), join(bench.workspace, "link"));
    mkdirSync(join(bench.folder, "out"));
    writeFileSync(join(bench.folder, "out", "file"), SECRET);
    symlinkSync("../out", join(bench.workspace, "folder"));
    execFileSync("mkfifo", [join(bench.workspace, "pipe")]);
    const server = createServer().listen(join(bench.workspace, "socket"));
    await new Promise((resolve) => server.once("listening", resolve));
    const { info, unread } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(unread).toEqual([]);
    expect((await bench.everything()).includes(SECRET)).toBe(false);
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(readdirSync(bench.workspace)).toEqual(["folder", "link", "pipe", "socket"]);
    await new Promise((resolve) => server.close(resolve));
    const fresh = join(bench.folder, "fresh");
    await bench.checkpoints.restore(info.id, { roots: { workspace: fresh } });
    expect(Object.keys(look(fresh))).toEqual(["folder", "link"]);
  });

  it("our own data, and one root inside of another", async () => {
    const bench = makeBench();
    const data = join(bench.home, "data");
    plant(data, { token: SECRET });
    plant(bench.home, { "workspace/file": "work", mine: "mine" });
    const checkpoints = createCheckpoints({
      storage: bench.storage,
      cacheFolder: join(bench.home, "cache"),
      never: [data],
    });
    const roots = { home: bench.home, workspace: join(bench.home, "workspace") };
    plant(bench.home, { "cache/x": SECRET });
    const { info, work } = await checkpoints.checkpoint({ roots });
    expect(work.files).toBe(2);
    expect((await bench.everything()).includes(SECRET)).toBe(false);
    rmSync(join(bench.home, "workspace/file"));
    await checkpoints.restore(info.id, { roots });
    expect(readFileSync(join(bench.home, "workspace/file"), "utf8")).toBe("work");
    expect(readFileSync(join(data, "token"), "utf8")).toBe(SECRET);
  });
});

describe("a file that changes while it is read", () => {
  it("is read again until it stood still", async () => {
    const file = join(makeFolder(), "file");
    writeFileSync(file, fill("a"));
    let calls = 0;
    const take = (): void => {
      if (calls++ === 0) writeFileSync(file, fill("b"));
    };
    const read = await readContent(file, { slice: new Slice(), slab: new Slab(), take });
    expect(read).toMatchObject({ stable: true, size: 2_500_000, content: { sha256: sha256(fill("b")) } });
    expect(calls).toBe(6);
  });

  it("is taken as it was read when it never stands still, and is not remembered", async () => {
    const bench = makeBench();
    const file = join(bench.workspace, "log");
    writeFileSync(file, "");
    const appender = startAppender(file);
    try {
      for (let round = 0; round < 6; round++) {
        const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
        const fresh = join(bench.folder, `fresh-${round}`);
        await bench.checkpoints.restore(info.id, { roots: { workspace: fresh } });
        const stored = readFileSync(join(fresh, "log"));
        expect(readFileSync(file).subarray(0, stored.length).equals(stored)).toBe(true);
        expect(stored.length).toBe(info.sizeBytes);
      }
    } finally {
      await appender.stop();
    }
    const last = await bench.checkpoints.checkpoint({ roots: bench.roots });
    await bench.checkpoints.restore(last.info.id, { roots: { workspace: join(bench.folder, "last") } });
    expect(readFileSync(join(bench.folder, "last/log")).equals(readFileSync(file))).toBe(true);
  });

  it("is not remembered when it could change again within the same tick of the clock", async () => {
    const folder = makeFolder();
    const path = join(folder, "file");
    writeFileSync(path, "one");
    const isRemembered = async (ctimeMs: number, settled = false): Promise<boolean> => {
      const stat = Object.assign(lstatSync(path), { ctimeMs });
      const cache = await StatCache.load(folder, `/root/${ctimeMs}`);
      cache.keep("file", stat, { sha256: sha256("one") }, { settled });
      await cache.save();
      return (await StatCache.load(folder, `/root/${ctimeMs}`)).find("file", stat) !== undefined;
    };
    const now = Date.now();
    expect(await isRemembered(now - 10_000.25)).toBe(true);
    // The clock of another machine may be ahead.
    expect(await isRemembered(now + 10_000.25)).toBe(false);
    expect(await isRemembered(now + 20_000.25, true)).toBe(true);
    // Some file systems know whole seconds only.
    expect(await isRemembered(Math.ceil(now / 1000) * 1000)).toBe(false);
    expect(await isRemembered(Math.floor(now / 1000) * 1000 - 5000)).toBe(true);
  });
});

/** A process that writes to the end of a file, as fast as it can. */
function startAppender(file: string): { stop(): Promise<void> } {
  const script = `
    const fs = require("node:fs");
    for (let n = 0; ; n++) fs.appendFileSync(process.argv[1], "line " + n + "\\n");`;
  return start(script, file);
}
