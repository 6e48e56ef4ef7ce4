import { isDeepStrictEqual } from "node:util";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agUi } from "../../../src/dialects/ag-ui/index.ts";
import { createWatcher } from "../../../src/sandbox/index.ts";
import type { LogLine } from "../../../src/sessions/index.ts";
import { openEngine, runTurn, SCRIPTED, script } from "../../support/engine.ts";

const STEPS = script(
  { write: { path: "f", content: "1" } },
  { sleep: 300 },
  { write: { path: "f", content: "2" } },
  { sleep: 300 },
  { delete: "f" },
);

/** The `sandbox.file` events of a session, by their type. */
async function fileEvents(test: Awaited<ReturnType<typeof openEngine>>): Promise<unknown[]> {
  let state = agUi.initial({ agent: "scripted" });
  const told: unknown[] = [];
  for (const event of await test.log.read("s", { after: 0, limit: 1000 })) {
    const projected = agUi.project(state, event);
    state = projected.state;
    for (const { data } of projected.frames) {
      const { name, value } = JSON.parse(data) as { name?: string; value?: { type: string; path: string } };
      if (name === "sandbox.file") told.push([value?.type, value?.path]);
    }
  }
  return told;
}

describe("observability", () => {
  it("calls the server's hooks, and a throwing one changes nothing (TS-24)", async () => {
    const calls: string[] = [];
    const lines: LogLine[] = [];
    const hook = (name: string) => (event: { type: string; path: string; timestamp: number }) => {
      expect(Number.isSafeInteger(event.timestamp)).toBe(true);
      calls.push(`${name} ${event.type} ${event.path}`);
      if (name === "onFileCreate") throw new Error("a hook that fails");
    };
    const fileHooks = {
      onFile: hook("onFile"),
      onFileCreate: hook("onFileCreate"),
      onFileChange: hook("onFileChange"),
      onFileDelete: hook("onFileDelete"),
    };
    const watched = await openEngine({ fileHooks, logger: (line) => lines.push(line) });
    const plain = await openEngine();
    try {
      const told = [];
      for (const test of [watched, plain]) {
        await test.engine.create("s", SCRIPTED);
        const ended = await runTurn(test, "s", STEPS);
        expect(ended.data.status).toBe("completed");
        // A slow machine may see the halves of one write.
        const events = await fileEvents(test);
        told.push(events.filter((event, at) => !isDeepStrictEqual(event, events[at - 1])));
      }
      expect(told[0]).toEqual(told[1]);
      expect(told[0]).toEqual(["create", "change", "delete"].map((type) => [type, "/home/user/workspace/f"]));
      const names = calls.map((call) => call.split(" ").slice(0, 2).join(" "));
      for (const [name, type] of [
        ["Create", "create"],
        ["Change", "change"],
        ["Delete", "delete"],
      ]) {
        expect(names).toContain(`onFile ${type}`);
        expect(names).toContain(`onFile${name} ${type}`);
      }
      expect(lines.some(({ error }) => String(error).includes("a hook that fails"))).toBe(true);
    } finally {
      await watched.close();
      await plain.close();
    }
  });

  it("offers its watcher for any folder (TS-31)", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-watch-"));
    const watcher = createWatcher({ folder });
    try {
      await watcher.ready;
      await writeFile(join(folder, "a"), "x");
      await watcher.flush();
      expect(watcher.take()).toEqual([
        { type: "create", path: "a", timestamp: expect.any(Number) as number },
      ]);
      await watcher.stop();
      await writeFile(join(folder, "b"), "x");
      expect(watcher.take()).toEqual([]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
