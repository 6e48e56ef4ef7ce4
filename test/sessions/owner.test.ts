import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Owner, processName } from "../../src/sessions/owner.ts";
import { lockFile } from "../../src/sqlite/lock.ts";

const NONCE = "0123456789abcdef";

describe("an owner of sessions", () => {
  let data: string;
  let owner: Owner;
  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), "sluice-owner-"));
    mkdirSync(join(data, "owners"));
    owner = new Owner(data);
  });
  afterEach(() => {
    owner.close();
    rmSync(data, { recursive: true });
  });

  it("is dead with its process, also while another server looks at its lock", async () => {
    const dead = await deadProcess();
    const looking = lockFile(join(data, "owners", `${NONCE}.db`));
    expect(owner.isAlive(`${dead}@${NONCE}`)).toBe(false);
    looking?.release();
  });

  it("lives while it holds its lock", () => {
    const other = new Owner(data);
    expect(owner.isAlive(other.name)).toBe(true);
  });

  it("is dead once it is closed, though its process lives", () => {
    const other = new Owner(data);
    other.close();
    expect(owner.isAlive(other.name)).toBe(false);
  });

  it("of another host lives while its lock is held", () => {
    const [pid, start, boot, namespace] = processName().split("@");
    const name = [pid, start, `${boot}0`, namespace, "elsewhere", NONCE].join("@");
    const lock = lockFile(join(data, "owners", `${NONCE}.db`));
    expect(owner.isAlive(name)).toBe(true);
    lock?.release();
  });
});

/** The name of a process that was and is no more. */
async function deadProcess(): Promise<string> {
  const child = spawn("true");
  await once(child, "exit");
  const [, start, ...rest] = processName().split("@");
  return [child.pid, start, ...rest].join("@");
}
