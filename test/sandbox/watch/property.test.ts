import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Backlog, type FileChange } from "../../../src/sandbox/watch/changes.ts";
import { createWatcher } from "../../../src/sandbox/watch/watcher.ts";
import { Mirror } from "./tree.ts";

const name = fc.constantFrom("a", "b", "c", "d");
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join("/"));
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant("write" as const), path, text: fc.string({ maxLength: 3 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("append" as const), path }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("mkdir" as const), path }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), path }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("move" as const), path, to: path }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("link" as const), path, to: path }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("flush" as const, "take" as const, "turn" as const) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

describe("events folded over the tree", () => {
  it("give the tree as it is, after any changes", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.array(step, { minLength: 1, maxLength: 40 }),
        async (before, steps) => {
          const folder = await mkdtemp(join(tmpdir(), "sluice-watch-"));
          for (const each of before) perform(folder, each);
          const watcher = createWatcher({ folder, debounceMs: 1 });
          try {
            await watcher.ready;
            const mirror = new Mirror(folder);
            for (const each of steps) {
              perform(folder, each);
              if (each.kind === "flush") await watcher.flush();
              if (each.kind === "take") mirror.apply(watcher.take());
              if (each.kind === "turn") await new Promise((resolve) => setTimeout(resolve, 2));
            }
            await watcher.flush();
            mirror.apply(watcher.take());
            mirror.expectEqual();
            await watcher.flush();
            expect(watcher.take()).toEqual([]);
          } finally {
            await watcher.stop();
            await rm(folder, { recursive: true, force: true });
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it("are the same after a restart at any moment, with changes meanwhile", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 15 }),
        fc.array(step, { maxLength: 15 }),
        fc.array(step, { maxLength: 15 }),
        fc.boolean(),
        async (first, meanwhile, last, takesAll) => {
          const folder = await mkdtemp(join(tmpdir(), "sluice-watch-"));
          const one = createWatcher({ folder });
          try {
            await one.ready;
            const mirror = new Mirror(folder);
            for (const each of first) {
              perform(folder, each);
              if (each.kind === "flush") await one.flush();
              if (each.kind === "take") mirror.apply(one.take());
            }
            await one.flush();
            if (takesAll) mirror.apply(one.take());
            const snapshot = JSON.parse(JSON.stringify(one.snapshot())) as ReturnType<typeof one.snapshot>;
            await one.stop();
            for (const each of meanwhile) perform(folder, each);
            const two = createWatcher({ folder });
            try {
              await two.restore(snapshot);
              if (takesAll) mirror.apply(two.take());
              for (const each of last) perform(folder, each);
              await two.flush();
              mirror.apply(two.take());
              mirror.expectEqual();
            } finally {
              await two.stop();
            }
          } finally {
            await one.stop();
            await rm(folder, { recursive: true, force: true });
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  it("are summed up per path, so that a late reader ends with the same tree as a prompt one", () => {
    const type = fc.constantFrom("create" as const, "change" as const, "delete" as const);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), type, fc.boolean())), (happenings) => {
        const there = new Set(["a"]);
        const reader = new Set(there);
        const backlog = new Backlog();
        const take = (): void => {
          for (const { type, path } of backlog.take()) {
            expect(reader.has(path)).toBe(type !== "create");
            if (type === "delete") reader.delete(path);
            else reader.add(path);
          }
        };
        for (const [timestamp, [path, type, takes]] of happenings.entries()) {
          if (there.has(path) !== (type !== "create")) continue;
          if (type === "delete") there.delete(path);
          else there.add(path);
          backlog.add({ type, path, timestamp } satisfies FileChange);
          expect(backlog.size).toBeLessThanOrEqual(3);
          if (takes) take();
        }
        take();
        expect(reader).toEqual(there);
      }),
    );
  });
});

/** Does a possible change; an impossible one is skipped. */
function perform(folder: string, each: Step): void {
  if (!("path" in each)) return;
  const at = join(folder, each.path);
  try {
    if (each.kind !== "remove") mkdirSync(dirname(at), { recursive: true });
    if (each.kind === "write") writeFileSync(at, each.text);
    if (each.kind === "append") appendFileSync(at, "+");
    if (each.kind === "mkdir") mkdirSync(at, { recursive: true });
    if (each.kind === "remove") rmSync(at, { recursive: true, force: true });
    if (each.kind === "move") renameSync(at, join(folder, each.to));
    if (each.kind === "link") symlinkSync(each.to, at);
  } catch (error) {
    if (!("code" in (error as Error))) throw error;
  }
}
