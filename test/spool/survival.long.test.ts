import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import type { SpoolLine } from "../../src/contract/index.ts";
import { openSpool, type SpoolBatch } from "../../src/spool/index.ts";
import { bundleSpool } from "./bundle.ts";
import { adopt, followAll, makeFolder } from "./workbench.ts";

const fixture = (name: string): string => join(import.meta.dirname, "fixtures", name);

describe("a spooled process outlives the program that started it", () => {
  it.each([1, 3, 12, 40])(
    "killed with SIGKILL after %i batches, the next one reads the rest",
    async (batches) => {
      const folder = await makeFolder();
      const module = await bundleSpool(folder);
      const spoolFolder = join(folder, "s");
      const launcher = spawn(
        process.execPath,
        [fixture("launcher.mjs"), module, spoolFolder, fixture("counter.sh"), "3000"],
        {
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      const seen: SpoolLine[] = [];
      let offset = 0;
      let left = batches;
      for await (const line of createInterface({ input: launcher.stdout })) {
        if (left-- <= 0) continue;
        const batch = JSON.parse(line) as SpoolBatch;
        seen.push(...batch.lines);
        offset = batch.offset;
        if (left === 0) launcher.kill("SIGKILL");
      }
      if (launcher.exitCode === null && launcher.signalCode === null) await once(launcher, "exit");
      expect(launcher.signalCode).toBe("SIGKILL");

      const spool = (await openSpool(spoolFolder))!;
      adopt(spool);
      expect(await spool.exit()).toBeUndefined();
      const { lines, last } = await followAll(spool, offset);
      const numbers = Array.from({ length: 3_000 }, (_, n) => `line ${n + 1}`);
      expect([...seen, ...lines].map((line) => line.text)).toEqual([...numbers, "the end"]);
      expect(last.exit).toEqual({ code: 0 });
    },
  );
});
