import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTree, startWatcher, takeLive } from "./tree.ts";
import { bundleInto } from "../../support/bundle.ts";

const NOBODY = 65_534;
let place = "";
let program = "";

beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), "sluice-watch-program-"));
  program = await bundleInto(join(place, "program.mjs"), resolve(import.meta.dirname, "program.ts"));
  await chmod(place, 0o755);
});

afterAll(() => rm(place, { recursive: true }));

/** The watcher in a process of its own, with its own rights and limits. */
interface Watching {
  line(pattern: RegExp): Promise<void>;
  end(): Promise<string[]>;
}

function watchApart(argv: readonly string[], options: { uid?: number } = {}): Watching {
  const [file = "", ...args] = argv;
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"], ...options });
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on("line", (line) => lines.push(line));
  const closed = once(child, "close");
  return {
    line: (pattern) =>
      new Promise((found, fail) => {
        const look = (): void => {
          if (!lines.some((line) => pattern.test(line))) return;
          reader.off("line", look);
          found();
        };
        reader.on("line", look);
        look();
        void closed.then(() => fail(new Error(`It ended without ${pattern}: ${lines.join("\n")}`)));
      }),
    end: async () => {
      child.stdin.end();
      await closed;
      return lines;
    },
  };
}

const ownNamespace = spawnSync("unshare", ["-Ur", "sh", "-c", "echo 9 > /proc/sys/user/max_inotify_watches"]);

describe("a watcher at its limits", () => {
  it.skipIf(ownNamespace.status !== 0)(
    "goes on by looking now and then when the kernel has no watches left, and says so once",
    async () => {
      const folder = await makeTree();
      for (let index = 0; index < 30; index++) await mkdir(join(folder, `d${index}`));
      const limited = 'echo 9 > /proc/sys/user/max_inotify_watches && exec "$0" "$@"';
      const watching = watchApart(["unshare", "-Ur", "sh", "-c", limited, process.execPath, program, folder]);
      await watching.line(/ready/);
      for (let index = 0; index < 30; index++) await writeFile(join(folder, `d${index}`, "file"), "1");
      for (let index = 0; index < 30; index++) await watching.line(new RegExp(`create.*d${index}/file`));
      await mkdir(join(folder, "d29/new"));
      await writeFile(join(folder, "d29/new/file"), "1");
      await rm(join(folder, "d28"), { recursive: true });
      const lines = await watching.end();
      expect(lines.filter((line) => line.includes("out_of_watches"))).toHaveLength(1);
      expect(lines).toContain('{"type":"create","path":"d29/new/file"}');
      expect(lines).toContain('{"type":"delete","path":"d28/file"}');
      expect(lines.at(-1)).toBe('{"snapshot":1}');
    },
  );

  it("passes by folders that it may not read, and reads them once it may", async () => {
    const folder = await makeTree();
    const uid = process.getuid?.() === 0 ? NOBODY : undefined;
    const own = async (path: string): Promise<void> => {
      if (uid !== undefined) await chown(path, uid, uid);
    };
    await own(folder);
    for (const name of ["open", "closed"]) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, "before"), "1");
      await own(join(folder, name));
    }
    await chmod(join(folder, "closed"), 0);
    const watching = watchApart([process.execPath, program, folder], uid === undefined ? {} : { uid });
    await watching.line(/ready/);
    await writeFile(join(folder, "open/a"), "1");
    await watching.line(/create.*open\/a"/);
    await chmod(join(folder, "closed"), 0o700);
    await watching.line(/create.*closed\/before"/);
    await writeFile(join(folder, "closed/b"), "1");
    await watching.line(/create.*closed\/b"/);
    await chmod(join(folder, "closed"), 0);
    await writeFile(join(folder, "open/c"), "1");
    await watching.line(/create.*open\/c"/);
    await chmod(join(folder, "closed"), 0o700);
    await rm(join(folder, "closed"), { recursive: true });
    const lines = await watching.end();
    expect(lines.filter((line) => line.includes('"delete"')).toSorted()).toEqual([
      '{"type":"delete","path":"closed/b"}',
      '{"type":"delete","path":"closed/before"}',
    ]);
  });

  it("keeps to the number of entries that it is given, and says so", async () => {
    const folder = await makeTree();
    const warnings: string[] = [];
    const watcher = await startWatcher(folder, {
      maxEntries: 10,
      onError: ({ reason }) => warnings.push(reason),
    });
    for (let index = 0; index < 50; index++) await writeFile(join(folder, String(index)), "1");
    await watcher.flush();
    expect(watcher.take()).toHaveLength(10);
    expect(warnings).toEqual(["too_many_entries"]);
    for (let index = 0; index < 50; index++) await rm(join(folder, String(index)));
    await watcher.flush();
    expect(watcher.take()).toHaveLength(10);
    await writeFile(join(folder, "again"), "1");
    await watcher.flush();
    expect(watcher.take()).toHaveLength(1);
  });

  it("works with 25,000 entries, whose snapshot stays small", async () => {
    const folder = await makeTree();
    for (let index = 0; index < 1_000; index++) {
      const place = join(folder, `package-${index % 100}`, `module-${index}`);
      mkdirSync(place, { recursive: true });
      for (let file = 0; file < 23; file++) writeFileSync(join(place, `file-${file}.ts`), "x");
    }
    const watcher = await startWatcher(folder);
    const snapshot = watcher.snapshot();
    expect(JSON.stringify(snapshot).length / 23_000).toBeLessThan(64);
    for (const file of [0, 1]) await writeFile(join(folder, `package-7/module-7/file-${file}.ts`), "yy");
    const reported = await takeLive(watcher, 2);
    expect(reported.map(({ path }) => path)).toEqual([
      "package-7/module-7/file-0.ts",
      "package-7/module-7/file-1.ts",
    ]);
    await watcher.stop();

    // A change that was reported after the snapshot is not reported again.
    await writeFile(join(folder, "package-7/module-7/file-1.ts"), "zzz");
    await rm(join(folder, "package-9"), { recursive: true });
    const second = await startWatcher(folder);
    await second.restore(snapshot, reported);
    const changes = second.take();
    expect(changes.filter(({ type }) => type === "delete")).toHaveLength(230);
    expect(changes.filter(({ type }) => type !== "delete").map(({ path }) => path)).toEqual([
      "package-7/module-7/file-1.ts",
    ]);
  });
});
