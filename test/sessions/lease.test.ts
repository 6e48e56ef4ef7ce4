import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Lease, processName } from "../../src/sessions/upkeep/lease.ts";
import { lockFile } from "../../src/sqlite/lock.ts";
import { openEngine, say, SCRIPTED } from "../support/engine.ts";

const NONCE = "0123456789abcdef";

describe("a lease on sessions", () => {
  let data: string;
  let owner: Lease;
  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), "sluice-owner-"));
    mkdirSync(join(data, "owners"));
    owner = new Lease(data);
  });
  afterEach(() => {
    owner.release();
    rmSync(data, { recursive: true });
  });

  it("ends with its process, also while another server tests its lock", async () => {
    const dead = await deadProcess();
    const looking = lockFile(join(data, "owners", `${NONCE}.db`));
    expect(owner.isAlive(`${dead}@${NONCE}`)).toBe(false);
    looking?.release();
  });

  it("lasts while its lock is held", () => {
    const other = new Lease(data);
    expect(owner.isAlive(other.name)).toBe(true);
  });

  it("ends with its release, though its process lives", () => {
    const other = new Lease(data);
    other.release();
    expect(owner.isAlive(other.name)).toBe(false);
  });

  it("of another host lasts while its lock is held", () => {
    const [pid, start, boot, namespace] = processName().split("@");
    const name = [pid, start, `${boot}0`, namespace, "elsewhere", NONCE].join("@");
    const lock = lockFile(join(data, "owners", `${NONCE}.db`));
    expect(owner.isAlive(name)).toBe(true);
    lock?.release();
    // A background look may trust what it has just seen; a client's request may not.
    expect(owner.isFree(name, { isUrgent: true })).toBe(true);
  });
});

describe("a session that a caretaker holds for its round", () => {
  it("is waited for, and not refused", async () => {
    const test = await openEngine({ defaultSandbox: "local" });
    try {
      await test.engine.create("s", SCRIPTED);
      const [pid, start, boot, namespace] = processName().split("@");
      const owner = [pid, start, boot, namespace, "elsewhere", NONCE, "passing"].join("@");
      const lock = lockFile(join(test.folder, "owners", `${NONCE}.db`));
      const { head, epoch } = (await test.log.find("s")) ?? { head: 0, epoch: 0 };
      const claimed = await test.log.claim("s", { owner, from: epoch });
      await test.log.append("s", { epoch: claimed, after: head, time: 1, events: [], active: true });
      await test.restart();
      const sent = say(test.engine, "s", "hello");
      await setTimeout(100);
      lock?.release();
      await expect(sent).resolves.toBeDefined();
    } finally {
      await test.close();
    }
  });
});

/** The name of a process that has ended. */
async function deadProcess(): Promise<string> {
  const child = spawn("true");
  await once(child, "exit");
  const [, start, ...rest] = processName().split("@");
  return [child.pid, start, ...rest].join("@");
}
