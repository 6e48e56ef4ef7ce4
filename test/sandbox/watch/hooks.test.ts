import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFileHookRunner, type FileHookRunnerOptions } from "../../../src/sandbox/watch/hooks.ts";
import type { FileHookEvent } from "../../../src/sandbox/watch/changes.ts";
import { makeTree, run, startWatcher } from "./tree.ts";

async function start(
  folder: string,
  hooks: FileHookRunnerOptions["hooks"],
  options: Partial<FileHookRunnerOptions> = {},
): Promise<{
  happen(work: () => Promise<unknown>): Promise<readonly { type: string; path: string }[]>;
  logged: unknown[][];
}> {
  const watcher = await startWatcher(folder);
  const logged: unknown[][] = [];
  const runner = createFileHookRunner({
    folder,
    hooks,
    log: (...said) => void logged.push(said),
    ...options,
  });
  const happen = async (work: () => Promise<unknown>): Promise<readonly { type: string; path: string }[]> => {
    await work();
    await watcher.flush();
    const changes = watcher.take();
    runner.deliver(changes);
    await runner.settled();
    return changes.map(({ type, path }) => ({ type, path }));
  };
  return { happen, logged };
}

const collect = (): { events: FileHookEvent[]; hook: (event: FileHookEvent) => void } => {
  const events: FileHookEvent[] = [];
  return { events, hook: (event) => void events.push(event) };
};

const text = (size: number): string => "x".repeat(size);
const never = (): Promise<void> => new Promise(() => {});

describe("the hooks for files", () => {
  it("are each called for their kind of change, with type, path and time", async () => {
    const folder = await makeTree();
    const calls: string[] = [];
    const note =
      (name: string) =>
      (event: FileHookEvent): void => {
        expect(Number.isSafeInteger(event.timestamp)).toBe(true);
        calls.push(`${name} ${event.type} ${event.path}`);
      };
    const { happen, logged } = await start(folder, {
      onFile: note("onFile"),
      onFileCreate: note("onFileCreate"),
      onFileChange: note("onFileChange"),
      onFileDelete: note("onFileDelete"),
    });
    await happen(() => writeFile(join(folder, "a"), "1"));
    await happen(() => writeFile(join(folder, "a"), "22"));
    await happen(() => rm(join(folder, "a")));
    expect(calls).toEqual([
      "onFile create a",
      "onFileCreate create a",
      "onFile change a",
      "onFileChange change a",
      "onFile delete a",
      "onFileDelete delete a",
    ]);
    expect(logged).toEqual([]);
  });

  it("are given the text before and after and their difference", async () => {
    const folder = await makeTree();
    const { events, hook } = collect();
    const { happen } = await start(folder, { onFile: hook });
    await happen(() => writeFile(join(folder, "a.txt"), "one\ntwo\n"));
    await happen(() => writeFile(join(folder, "a.txt"), "one\n2\n"));
    await happen(() => rm(join(folder, "a.txt")));
    const [created, changed, deleted] = events;
    expect([await created?.before(), await created?.after()]).toEqual([undefined, "one\ntwo\n"]);
    expect(await created?.diff()).toBe("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    expect([await changed?.before(), await changed?.after()]).toEqual(["one\ntwo\n", "one\n2\n"]);
    expect(await changed?.diff()).toBe("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    expect([await deleted?.before(), await deleted?.after()]).toEqual(["one\n2\n", undefined]);
    expect(await deleted?.diff()).toBe("--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-2\n");
  });

  it("know a file that was there before from the repository's commit, and else do not pretend to", async () => {
    const folder = await makeTree();
    await mkdir(join(folder, "src"));
    await writeFile(join(folder, "src/a b.txt"), "committed\n");
    await run("git", ["init", "-q"], folder);
    await run("git", ["add", "-A"], folder);
    await run("git", ["commit", "-qm", "1"], folder);
    await writeFile(join(folder, "loose.txt"), "1\n");
    const { events, hook } = collect();
    const { happen } = await start(folder, { onFileChange: hook });
    await happen(() => writeFile(join(folder, "src/a b.txt"), "changed\n"));
    await happen(() => writeFile(join(folder, "loose.txt"), "22\n"));
    expect(await events[0]?.before()).toBe("committed\n");
    expect(await events[0]?.diff()).toContain("-committed\n+changed\n");
    expect([await events[1]?.before(), await events[1]?.diff()]).toEqual([undefined, undefined]);
    expect(await events[1]?.after()).toBe("22\n");
  });

  it("never see the target of a symlink", async () => {
    const [folder, elsewhere] = [await makeTree(), await makeTree()];
    await writeFile(join(elsewhere, "secret"), "secret");
    const { events, hook } = collect();
    const { happen } = await start(folder, { onFile: hook });
    await happen(() => symlink(join(elsewhere, "secret"), join(folder, "link")));
    expect(await events[0]?.after()).toBe(join(elsewhere, "secret"));
  });

  it("keep no more text than they may", async () => {
    const folder = await makeTree();
    const { events, hook } = collect();
    const { happen } = await start(
      folder,
      { onFileChange: hook },
      { cacheBytes: 3_000, maxFileBytes: 2_000 },
    );
    await happen(() => writeFile(join(folder, "old"), text(1_000)));
    await happen(() => writeFile(join(folder, "big"), text(2_500)));
    await happen(() => writeFile(join(folder, "mid"), text(1_900)));
    await happen(() => writeFile(join(folder, "new"), text(500)));
    for (const name of ["old", "big", "mid", "new"]) await happen(() => writeFile(join(folder, name), "y"));
    const known = await Promise.all(
      events.map(async (event) => [event.path, (await event.before())?.length]),
    );
    expect(known).toEqual([
      ["old", undefined],
      ["big", undefined],
      ["mid", 1_900],
      ["new", 500],
    ]);
  });

  it("change nothing when they throw, at once or later: it is logged, and the next is called", async () => {
    const folder = await makeTree();
    const { events, hook } = collect();
    const { happen, logged } = await start(folder, {
      onFile: () => {
        throw new Error("at once");
      },
      onFileCreate: async () => {
        await Promise.resolve();
        throw new Error("later");
      },
      onFileChange: hook,
    });
    expect(await happen(() => writeFile(join(folder, "a"), "1"))).toEqual([{ type: "create", path: "a" }]);
    expect(await happen(() => writeFile(join(folder, "a"), "22"))).toEqual([{ type: "change", path: "a" }]);
    expect(events).toHaveLength(1);
    expect(logged.map(([message, error]) => [message, (error as Error).message])).toEqual([
      ["The hook onFile has failed for a.", "at once"],
      ["The hook onFileCreate has failed for a.", "later"],
      ["The hook onFile has failed for a.", "at once"],
    ]);
  });

  it("block no other hook for ever", async () => {
    const folder = await makeTree();
    const { events, hook } = collect();
    const { happen, logged } = await start(folder, { onFile: never, onFileCreate: hook }, { patienceMs: 5 });
    await happen(() => writeFile(join(folder, "a"), "1"));
    expect(events).toHaveLength(1);
    expect(logged[0]?.[0]).toContain("is not done with a");
  });

  it("are not called any more once they are stopped", async () => {
    const folder = await makeTree();
    const { events, hook } = collect();
    const runner = createFileHookRunner({ folder, hooks: { onFile: hook }, log: () => {} });
    runner.deliver([{ type: "create", path: "a", timestamp: 1 }]);
    runner.stop();
    await runner.settled();
    expect(events).toEqual([]);
  });
});
