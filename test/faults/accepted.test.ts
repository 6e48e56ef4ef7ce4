import { execFileSync } from "node:child_process";
import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { EventOf } from "../../src/contract/index.ts";
import {
  ofType,
  openEngine,
  readAll,
  runTurn,
  say,
  SCRIPTED,
  script,
  waitFor,
  type TestEngine,
} from "../support/engine.ts";
import { assistantTexts } from "../support/laws.ts";

/** More than the journal's last page has room for. */
const LONG = script({ say: "it arrived" }, { say: "x".repeat(20_000) });

describe("an accepted message that cannot be delivered to the agent", () => {
  let test: TestEngine;
  beforeEach(async () => {
    test = await openEngine({ defaultSandbox: "local" });
  });
  afterEach(() => test.close());

  const endOf = (turnId: string): Promise<EventOf<"turn.ended">> =>
    waitFor(test.log, "s", "turn.ended", { where: ({ data }) => data.turn_id === turnId });

  it.runIf(process.getuid?.() === 0)(
    "for want of space is accepted, and handed over once there is some",
    async () => {
      const spools = join(test.folder, "spools");
      await mkdir(spools, { recursive: true });
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", spools]);
      try {
        await test.engine.create("s", SCRIPTED);
        await runTurn(test, "s", script({ say: "hello" }));
        await fill(join(spools, "filler"));
        const { turnId } = await say(test.engine, "s", LONG, "key-1");
        await waitFor(test.log, "s", "turn.started", { where: ({ data }) => data.turn_id === turnId });
        await rm(join(spools, "filler"));
        expect((await endOf(turnId)).data.status).toBe("completed");
        const events = await readAll(test.log, "s");
        expect(ofType(events, "input.accepted")).toHaveLength(2);
        expect(assistantTexts(events).filter((text) => text === "it arrived")).toHaveLength(1);
        await test.engine.remove("s");
      } finally {
        execFileSync("umount", ["-l", spools]);
      }
    },
    60_000,
  );

  it("ends its turn with an error for damage, and is not tried again; the next one works", async () => {
    await test.engine.create("s", SCRIPTED);
    await runTurn(test, "s", script({ say: "hello" }));
    const input = join(test.folder, "spools", "s", "1", "in");
    await rm(input);
    await mkdir(input);
    const { turnId } = await say(test.engine, "s", LONG);
    expect((await endOf(turnId)).data).toMatchObject({ status: "failed", error: { code: "undeliverable" } });
    expect((await runTurn(test, "s", script({ say: "again" }))).data.status).toBe("completed");
    await test.restart();
    const told = ofType(await readAll(test.log, "s"), "error").filter(
      ({ data }) => data.code === "undeliverable",
    );
    expect(told).toHaveLength(1);
  }, 60_000);
});

/** Takes all the space that is left. */
async function fill(path: string): Promise<void> {
  const file = await open(path, "w");
  try {
    for (;;) await file.write(Buffer.alloc(4_096));
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe("ENOSPC");
  } finally {
    await file.close();
  }
}
