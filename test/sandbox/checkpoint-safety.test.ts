import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { AGENT_CREDENTIALS, HOME_CREDENTIALS } from "../../src/sandbox/checkpoint/credentials.ts";
import { DEFAULT_EXCLUDES } from "../../src/sandbox/checkpoint/exclusion.ts";
import { createCheckpoints } from "../../src/sandbox/checkpoint/checkpoints.ts";
import { createFolderStorage } from "../../src/sandbox/checkpoint/folderStorage.ts";
import { PackWriter } from "../../src/sandbox/checkpoint/packWriter.ts";
import { readContent, Slab } from "../../src/sandbox/checkpoint/readFile.ts";
import { sha256 } from "../../src/sandbox/checkpoint/sha256.ts";
import { Slice } from "../../src/sandbox/checkpoint/slice.ts";
import { StatCache } from "../../src/sandbox/checkpoint/statCache.ts";
import { look, makeBench, makeFolder, plant, type Bench } from "./checkpointBench.ts";

describe("what is never in a checkpoint", () => {
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

  it("what can be made again, unless asked for; and in a workspace a file of a credential's name is work", async () => {
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

  it("sockets, pipes and what a symlink leads to", async () => {
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
    const read = await readContent(file, { slice: new Slice(undefined), slab: new Slab(), take });
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

describe("a damaged storage", () => {
  it.each([0, 0.2, 0.5, 0.99])(
    "is refused when a byte of a pack is wrong (%d), and nothing changes",
    async (at) => {
      const { outcome, left } = await withDamage(flip("packs/", at));
      expect(outcome).toMatchObject({
        code: "internal",
        message: expect.stringMatching(/damaged: packs\/.*changed/),
      });
      expect(left).toEqual(["a", "own"]);
    },
  );

  it("is refused when a pack or the manifest is gone or changed", async () => {
    for (const damage of [remove("packs/"), remove("manifests/"), flip("manifests/", 0.5)]) {
      const { outcome, left } = await withDamage(damage);
      expect(outcome).toMatchObject({ message: expect.stringMatching(/damaged/) });
      expect(left).toEqual(["a", "own"]);
    }
  });

  it("does without its index, lost or damaged, and collects nothing that is needed", async () => {
    for (const damage of [remove("indexes/"), flip("indexes/", 0.5)]) {
      const { bench, outcome, left } = await withDamage(damage);
      expect(outcome).toMatchObject({ work: { filesWritten: 3 } });
      expect(left).toEqual(["a", "b", "b/c", "big"]);
      expect(await bench.reopened().gc({ graceMs: 0 })).toMatchObject({ deleted: 0 });
      const again = await bench.reopened().checkpoint({ roots: bench.roots });
      expect(again.work.objectsWritten).toBe(1);
    }
  });

  it("hides no other checkpoint behind one damaged record", async () => {
    const bench = makeBench();
    const first = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const second = await bench.checkpoints.checkpoint({ roots: bench.roots });
    await bench.storage.put(`checkpoints/${second.info.id}.json`, Buffer.from("{"));
    expect(await bench.reopened().list()).toEqual([first.info]);
    await expect(bench.reopened().get(second.info.id)).rejects.toThrow(/damaged/);
    await expect(bench.reopened().gc({ graceMs: 0 })).rejects.toThrow(/damaged/);
  });
});

describe("a hostile manifest", () => {
  const cases: [string, unknown[][]][] = [
    ["a path upwards", [file("../evil")]],
    ["a path upwards from inside", [folder("a"), file("a/../../evil")]],
    ["an absolute path", [file("/tmp/evil")]],
    ["a dot", [folder("."), file("./evil")]],
    ["an empty name", [folder("a"), file("a//evil")]],
    ["a NUL", [file("a\0b")]],
    ["a symlink above a file", [link("link", "/tmp"), file("link/evil")]],
    ["a file above a file", [file("a"), file("a/evil")]],
    ["no folder above a file", [file("nowhere/evil")]],
    ["a path twice", [link("a", "/tmp"), file("a")]],
    ["a symlink that becomes a folder", [link("a", "/tmp"), folder("a"), file("a/evil")]],
    ["paths out of order", [file("b"), file("a")]],
    ["set-user-id bits", [["f", "a", 0o4755, 1, 1, sha256("x")]]],
    ["a wrong size", [["f", "a", 0o644, 5, 1, sha256("x")]]],
    ["a negative size", [["f", "a", 0o644, -1, 1, sha256("x")]]],
    [
      "a wrong hash of the whole",
      [["f", "a", 0o644, 1_048_577, 1, sha256("lie"), [sha256("x"), sha256("x")]]],
    ],
    ["a kind that is none", [["c", "a", 0o644]]],
    ["no line at all", [{} as unknown[]]],
  ];

  it.each(cases)("with %s is refused before anything is written", async (_, rows) => {
    const bench = makeBench();
    plant(bench.workspace, { here: "stays" });
    const { info } = await bench.checkpoints.checkpoint({ roots: { home: bench.home } });
    const page = Buffer.from(rows.map((row) => JSON.stringify(row)).join("\n"));
    const writer = new PackWriter(bench.storage, () => false);
    for (const bytes of [page, Buffer.from("x")]) await writer.add({ sha256: sha256(bytes), bytes });
    await writer.finish();
    const manifest = Buffer.from(
      JSON.stringify({ version: 1, roots: { workspace: { exclude: [], pages: [sha256(page)] } } }),
    );
    await bench.storage.put(`manifests/${sha256(manifest)}`, manifest);
    const id = info.id.replace(/.$/, "0");
    const record = { ...info, id, hash: sha256(manifest) };
    await bench.storage.put(`checkpoints/${id}.json`, Buffer.from(JSON.stringify(record)));
    await expect(bench.reopened().restore(id, { roots: bench.roots })).rejects.toThrow(/damaged/);
    expect(Object.keys(look(bench.workspace))).toEqual(["here"]);
    expect(readdirSync(bench.folder).filter((name) => name.includes("evil"))).toEqual([]);
    expect(() => lstatSync("/tmp/evil")).toThrow(/ENOENT/);
  });

  it.each(["../x", "Workspace", "", "__proto__"])("is not made with a root named %j", async (name) => {
    const bench = makeBench();
    const roots = JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(bench.home)}}`);
    await expect(bench.checkpoints.checkpoint({ roots })).rejects.toMatchObject({ code: "invalid_request" });
  });
});

describe("a restore over what an agent left", () => {
  it("follows no symlink that stands where a folder was", async () => {
    const bench = makeBench();
    plant(bench.workspace, { "d/file": "inside", "d/sub/deep": "inside too" });
    const before = look(bench.workspace);
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const outside = join(bench.folder, "outside");
    plant(outside, { file: "outside", "sub/deep": "outside too", extra: "e" });
    rmSync(join(bench.workspace, "d"), { recursive: true });
    symlinkSync(outside, join(bench.workspace, "d"));
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(look(bench.workspace)).toEqual(before);
    expect(readFileSync(join(outside, "file"), "utf8")).toBe("outside");
    expect(Object.keys(look(outside))).toEqual(["extra", "file", "sub", "sub/deep"]);
  });

  it("writes nowhere else when what it has begun is swapped for a symlink", async () => {
    const folder = makeFolder();
    const outside = join(folder, "outside");
    plant(outside, { kept: "outside" });
    // Whoever works in the folder has all the time that a slow storage takes.
    const storage = createFolderStorage(join(folder, "storage"));
    let swap: (() => void) | undefined;
    const bench = makeBench({
      ...storage,
      get: async (key) => {
        if (key.startsWith("packs/")) swap?.();
        return storage.get(key);
      },
      put: (key, bytes) => storage.put(key, bytes),
      putIfAbsent: (key, bytes) => storage.putIfAbsent(key, bytes),
      has: (key) => storage.has(key),
      list: (prefix) => storage.list(prefix),
      delete: (key) => storage.delete(key),
    });
    const long = "long ".repeat(500_000);
    plant(bench.workspace, { "d/sub/file": "inside", "d/other/long": long });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    rmSync(join(bench.workspace, "d"), { recursive: true });
    let swapped = 0;
    swap = () => {
      const stage = readdirSync(bench.workspace).find((name) => name.startsWith(".sluice-restore-"));
      const victim = join(bench.workspace, stage ?? "", "0/sub");
      if (stage === undefined || !existsSync(victim)) return;
      renameSync(victim, `${victim}.real`);
      symlinkSync(outside, victim);
      swapped += 1;
    };
    await bench
      .reopened()
      .restore(info.id, { roots: bench.roots })
      .catch(() => {});
    expect(swapped).toBeGreaterThan(0);
    expect(Object.keys(look(outside))).toEqual(["kept"]);
  });

  it("changes no other name of a file with several", async () => {
    const bench = makeBench();
    plant(bench.workspace, { a: "content", b: "content b" });
    const { info } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    const outside = join(bench.folder, "outside");
    for (const name of ["a", "b"]) linkSync(join(bench.workspace, name), `${outside}-${name}`);
    execFileSync("chmod", ["700", join(bench.workspace, "a")]);
    writeFileSync(join(bench.workspace, "b"), "changed b");
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(lstatSync(`${outside}-a`).mode & 0o777).toBe(0o700);
    expect(readFileSync(`${outside}-b`, "utf8")).toBe("changed b");
    expect(readFileSync(join(bench.workspace, "b"), "utf8")).toBe("content b");
  });

  it("clears away what a killed restore left, and never keeps it", async () => {
    const bench = makeBench();
    plant(bench.workspace, { a: "1", ".sluice-restore-1-x/0": "half" });
    const { info, work } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(work.files).toBe(1);
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(readdirSync(bench.workspace)).toEqual(["a"]);
  });

  it("leaves alone names that are not UTF-8", async () => {
    const bench = makeBench();
    const odd = Buffer.concat([Buffer.from(join(bench.workspace, "d/")), Buffer.from([0x66, 0xff])]);
    plant(bench.workspace, { "d/good": "g" });
    writeFileSync(odd, "odd");
    const { info, unread } = await bench.checkpoints.checkpoint({ roots: bench.roots });
    expect(unread).toEqual(["workspace/d/f\u{FFFD}"]);
    writeFileSync(join(bench.workspace, "extra"), "");
    await bench.checkpoints.restore(info.id, { roots: bench.roots });
    expect(readFileSync(odd, "utf8")).toBe("odd");
    expect(readdirSync(bench.workspace)).toEqual(["d"]);
    unlinkSync(odd);
  });

  it("stands a folder that is swapped for a symlink while it walks", async () => {
    const bench = makeBench();
    const outside = join(bench.folder, "outside");
    plant(outside, Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`f${n}`, "the host's own"])));
    plant(bench.workspace, Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`d/f${n}`, "mine"])));
    const swapper = startSwapper(join(bench.workspace, "d"), outside);
    try {
      for (let round = 0; round < 40; round++) await bench.checkpoints.checkpoint({ roots: bench.roots });
    } finally {
      await swapper.stop();
    }
    expect((await bench.everything()).includes("the host's own")).toBe(false);
  });
});

/** A process that writes to the end of a file, as fast as it can. */
function startAppender(file: string): { stop(): Promise<void> } {
  const script = `
    const fs = require("node:fs");
    for (let n = 0; ; n++) fs.appendFileSync(process.argv[1], "line " + n + "\\n");`;
  return start(script, file);
}

/** A process that puts a symlink in the place of a folder and back, as fast as it can. */
function startSwapper(folder: string, target: string): { stop(): Promise<void> } {
  const script = `
    const fs = require("node:fs");
    const [folder, target] = process.argv.slice(1);
    fs.symlinkSync(target, folder + ".link");
    for (;;) {
      fs.renameSync(folder, folder + ".real"); fs.renameSync(folder + ".link", folder);
      fs.renameSync(folder, folder + ".link"); fs.renameSync(folder + ".real", folder);
    }`;
  return start(script, folder, target);
}

function start(script: string, ...args: string[]): { stop(): Promise<void> } {
  const child = spawn(process.execPath, ["-e", script, ...args], { stdio: "ignore" });
  const closed = once(child, "close");
  return {
    stop: async () => {
      child.kill("SIGKILL");
      await closed;
    },
  };
}

function fill(letter: string): Buffer {
  return Buffer.alloc(2_500_000, letter);
}

type Damage = (bench: Bench) => Promise<void>;

/** A restore from a damaged storage over a folder that has something in it. */
async function withDamage(damage: Damage): Promise<{ bench: Bench; outcome: unknown; left: string[] }> {
  const bench = makeBench();
  plant(bench.workspace, { a: "first content", "b/c": "second content", big: fill("m") });
  await bench.checkpoints.checkpoint({ roots: bench.roots });
  await damage(bench);
  const target = join(bench.folder, "target");
  plant(target, { a: "what was here", own: "mine" });
  const outcome = await bench
    .reopened()
    .restore("latest", { roots: { workspace: target } })
    .catch((error: unknown) => error);
  return { bench, outcome, left: Object.keys(look(target)) };
}

function remove(prefix: string): Damage {
  return async (bench) => {
    for (const key of await bench.objects(prefix)) await bench.storage.delete(key);
  };
}

/** Makes one bit wrong, that far into each object. */
function flip(prefix: string, at: number): Damage {
  return async ({ storage, objects }) => {
    for (const key of await objects(prefix)) {
      const bytes = Buffer.from((await storage.get(key)) ?? []);
      const place = Math.floor(bytes.length * at);
      bytes.writeUInt8(bytes.readUInt8(place) ^ 0x10, place);
      await storage.put(key, bytes);
    }
  };
}

function file(path: string): unknown[] {
  return ["f", path, 0o644, 1, 1, sha256("x")];
}

function folder(path: string): unknown[] {
  return ["d", path, 0o755];
}

function link(path: string, target: string): unknown[] {
  return ["l", path, target];
}
