import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createWatcher } from "../../../src/sandbox/watch/watcher.ts";

it("a receiver of warnings that throws does not end the watch", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "sluice-watch-")));
  let told = 0;
  const watcher = createWatcher({
    folder,
    maxEntries: 2,
    onError: () => {
      told += 1;
      throw new Error("the receiver is broken");
    },
  });
  try {
    await watcher.ready;
    for (const name of ["a", "b", "c", "d"]) writeFileSync(join(folder, name), name);
    await watcher.flush();
    expect(told).toBe(1);
    const [known] = watcher.take();
    rmSync(join(folder, known?.path ?? ""));
    await watcher.flush();
    expect(watcher.take()).toContainEqual(expect.objectContaining({ type: "delete", path: known?.path }));
  } finally {
    await watcher.stop();
    rmSync(folder, { recursive: true });
  }
});
