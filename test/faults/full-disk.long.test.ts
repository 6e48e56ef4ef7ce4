import { type ChildProcess, execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, rmdirSync } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ensureToken } from "../../src/cli/source/data-folder.ts";
import { createClient, type SluiceClient } from "../../src/client/index.ts";
import type { EventOf, SluiceEvent } from "../../src/contract/index.ts";
import { ended, printed, Workbench } from "../cli/workbench.ts";
import { processesWith, script } from "../support/engine.ts";
import { assistantTexts, expectLawful } from "../support/laws.ts";

const isRoot = process.getuid?.() === 0;

// The small disk that this fills has to be mounted. A CI that runs as root cannot skip it.
describe.skipIf(!isRoot || (!process.env["CI"] && !canMount()))(
  "a disk that is full in the middle of a turn (skipped where none can be mounted)",
  () => {
    let bench: Workbench;
    let disk: string;
    let client: SluiceClient;
    let server: ChildProcess;
    beforeEach(async () => {
      bench = new Workbench();
      disk = await mkdtemp(join(tmpdir(), "sluice-disk-"));
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]);
      server = bench.start(["serve", "--port", "0", "--no-token", "--data", join(disk, "data")]);
      const url = (await printed(server, /\n/)).trim().split(" ").at(-1) ?? "";
      client = createClient({ url });
    });
    afterEach(async () => {
      await rm(join(disk, "filler"), { force: true });
      for (const { sessionId } of (await client.sessions.list()).sessions)
        await client.sessions.delete(sessionId);
      await bench.close();
      execFileSync("umount", ["-l", disk]);
      await rm(disk, { recursive: true });
    });

    it("refuses messages with 507, keeps accepted ones, and goes on once there is space", async () => {
      // The gate lies on another disk, so that the agent itself can be let go.
      await client.sessions.create("s", { agent: "scripted", directory: bench.work });
      const first = await client.sendMessage(
        "s",
        script(
          { say: "before" },
          { shell: "echo waiting; while [ ! -e go ]; do sleep 0.05; done" },
          { say: "after" },
        ),
      );
      await follow(client, (event) => event.type === "item.delta" && event.data.delta.includes("waiting"));
      await fill(disk);
      const told = printed(server, /"the session will be reopened"/, "stderr");

      const turns = [first.turnId];
      const refused: { status: number; code: string; detail: string }[] = [];
      for (let index = 0; refused.length < 3 && index < 300; index++) {
        const text = `message ${index} ${"x".repeat(5_000)}`;
        const sent = await client
          .sendMessage("s", script({ say: text, chunks: 1 }))
          .catch((error: unknown) => {
            refused.push(error as (typeof refused)[number]);
          });
        if (sent) turns.push(sent.turnId);
      }
      expect(refused.map(({ status, code }) => `${status} ${code}`)).toEqual(
        Array(3).fill("507 storage_full"),
      );
      expect(String(refused[0])).toContain("free space");
      expect(await told, "whoever runs the server reads it in its log").toContain('"session":"s"');
      expect((await client.sessions.get("s")).status, "readers are served all the same").toBe("running");

      await rm(join(disk, "filler"));
      // The turns of the accepted messages need several times the space of the messages.
      execFileSync("mount", ["-o", "remount,size=256m", disk]);
      await writeFile(join(bench.work, "go"), "");
      const last = await retrying(() => client.sendMessage("s", script({ say: "the end" })));
      turns.push(last.turnId);
      const events = await follow(
        client,
        (event) => event.type === "turn.ended" && event.turn_id === last.turnId,
      );
      expectLawful(events);
      const ended = events.filter((event): event is EventOf<"turn.ended"> => event.type === "turn.ended");
      expect(ended.map((event) => `${event.turn_id} ${event.data.status}`)).toEqual(
        turns.map((id) => `${id} completed`),
      );
      expect(assistantTexts(events).filter((text) => !text.startsWith("message"))).toEqual([
        "before",
        "after",
        "the end",
      ]);
    });

    it("ends the turn of an agent that could not print any more, once, and the session can be used again", async () => {
      await client.sessions.create("s", { agent: "scripted", directory: bench.work });
      const { turnId } = await client.sendMessage(
        "s",
        script(
          { shell: "echo waiting; while [ ! -e go ]; do sleep 0.05; done" },
          { flood: { events: 20_000, bytes: 200 } },
          { say: "unlikely" },
        ),
      );
      await follow(client, (event) => event.type === "item.delta" && event.data.delta.includes("waiting"));
      await fill(disk);
      await writeFile(join(bench.work, "go"), "");
      // The agent's writes fail now; no event comes until there is space again.
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      await rm(join(disk, "filler"));
      const events = await follow(client, (event) => event.type === "turn.ended" && event.turn_id === turnId);
      const { ended } = await client.sessions.get("s");
      if (!ended) {
        const again = await retrying(() => client.sendMessage("s", script({ say: "back" })));
        events.push(
          ...(await follow(
            client,
            (event) => event.type === "turn.ended" && event.turn_id === again.turnId,
            events.length,
          )),
        );
        expect(assistantTexts(events).at(-1)).toBe("back");
      } else events.push(...(await follow(client, (event) => event.type === "session.ended", events.length)));
      expectLawful(events);
    });

    it("still terminates sessions, and serves their events", async () => {
      // Without isolation the sleeper is found by the environment that it has on this host.
      await client.sessions.create("s", { agent: "scripted", directory: bench.work, sandbox: "local" });
      await client.sendMessage("s", script({ shell: "echo waiting; sleep 1234" }));
      await follow(client, (event) => event.type === "item.delta");
      await expect.poll(() => sleepers(disk)).toHaveLength(1);
      await fill(disk);
      const refusal = await client.terminate("s").then(
        () => undefined,
        (error: { status: number }) => error.status,
      );
      expect([undefined, 502, 507]).toContain(refusal);
      expect(await sleepers(disk)).toEqual([]);
      const before = await client.events.page("s", { extensions: true });
      expect(before.events.length).toBeGreaterThan(5);
      await rm(join(disk, "filler"));
      await retrying(() => client.terminate("s"));
      const events = await follow(client, (event) => event.type === "session.ended");
      expectLawful(events);
    });

    it("is reported as 507 by every call that needs space", async () => {
      await client.sessions.create("s", { agent: "scripted" });
      await client.sendMessage("s", script({ say: "x" }));
      await follow(client, (event) => event.type === "turn.ended");
      const full = { status: 507, code: "storage_full" };
      // The server gives space back by itself: after a refused checkpoint, and when the log's WAL is copied.
      const onFullDisk = async (call: () => Promise<unknown>): Promise<unknown> => {
        await fill(disk);
        return call().catch((error: unknown) => error);
      };
      const fork = { agent: "scripted", fork: { session: "s" } };
      await expect.poll(() => onFullDisk(() => client.checkpoints.create("s"))).toMatchObject(full);
      await expect
        .poll(() => onFullDisk(() => client.sessions.create(`copy-${randomUUID()}`, fork)))
        .toMatchObject(full);
      await fill(disk);
      await expect(client.host("s", 80)).rejects.toMatchObject(full);
      await rm(join(disk, "filler"));
      await retrying(() => client.checkpoints.create("s"));
      await retrying(() => client.sessions.create("copy", fork));
    });

    it("can be given space by deleting a session", async () => {
      await client.sessions.create("s", { agent: "scripted" });
      const { turnId } = await client.sendMessage(
        "s",
        script({ shell: "head -c 2000000 /dev/urandom > big" }),
      );
      await follow(client, (event) => event.type === "turn.ended" && event.turn_id === turnId);
      await fill(disk);
      await client.sessions.delete("s");
      await client.sessions.create("t", { agent: "scripted" });
    });
  },
);

describe.skipIf(!isRoot || (!process.env["CI"] && !canMount()))(
  "commands on a disk that is full (skipped where none can be mounted)",
  () => {
    let bench: Workbench;
    let disk: string;
    let data: string;
    beforeEach(async () => {
      bench = new Workbench();
      disk = await mkdtemp(join(tmpdir(), "sluice-disk-"));
      data = join(disk, "data");
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", disk]);
    });
    afterEach(async () => {
      await bench.close();
      execFileSync("umount", ["-l", disk]);
      await rm(disk, { recursive: true });
    });

    it("no empty token is left, and one is made once there is space", async () => {
      await fill(disk);
      expect(() => ensureToken(disk)).toThrow(/ENOSPC.*Make room/s);
      expect(readdirSync(disk)).toEqual(["filler"]);
      await rm(join(disk, "filler"));
      expect(ensureToken(disk)).toMatch(/^[\w-]{43}$/);
      expect(readdirSync(disk)).toEqual(["token"]);
    });

    it("run reports that it waits for space and goes on, or ends its session with the reserve", async () => {
      const gate = join(bench.work, "go");
      const child = bench.start([
        "run",
        "--data",
        data,
        "--json",
        script(
          { shell: "echo waiting; while [ ! -e go ]; do sleep 0.05; done" },
          { say: "x".repeat(100_000), chunks: 1 },
        ),
      ]);
      const end = ended(child);
      await printed(child, /waiting\\n"/);
      await fill(disk);
      const told = printed(child, /sluice: .*The disk is full: free space on/, "stderr");
      await writeFile(gate, "");
      // What is kept in reserve for the log may be enough to tell the end; then there is nothing to wait for.
      await told.catch(() => {});
      await rm(join(disk, "filler"));
      const { out, code } = await end;
      const events = out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as SluiceEvent);
      expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
      expect(events.filter(({ type }) => type === "turn.ended")).toHaveLength(1);
      expect([0, 1]).toContain(code);
    });
  },
);

async function follow(
  client: SluiceClient,
  isLast: (event: SluiceEvent) => boolean,
  after = 0,
): Promise<SluiceEvent[]> {
  const events: SluiceEvent[] = [];
  for await (const event of client.subscribe("s", { extensions: true, after })) {
    events.push(event);
    if (isLast(event)) break;
  }
  return events;
}

/** The commands of agents in the sandboxes of this disk. */
async function sleepers(disk: string): Promise<number[]> {
  const commands = new Set(await processesWith("sleep\u00001234"));
  return (await processesWith(disk)).filter((pid) => commands.has(pid));
}

/** Takes every last page of the disk. */
async function fill(disk: string): Promise<void> {
  const file = await open(join(disk, "filler"), "a");
  for (const size of [256 * 1024, 4096]) {
    const piece = Buffer.alloc(size);
    for (let isFull = false; !isFull;) {
      const wrote = await file.write(piece).catch(() => ({ bytesWritten: 0 }));
      isFull = wrote.bytesWritten < size;
    }
  }
  await file.close();
}

/** A session that was given up for want of space is opened again by itself, a moment later. */
async function retrying<T>(task: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await task();
    } catch (error) {
      if (tries >= 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), "sluice-mount-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], { stdio: "ignore" });
    execFileSync("umount", [folder]);
    return true;
  } catch {
    return false;
  } finally {
    rmdirSync(folder);
  }
}
