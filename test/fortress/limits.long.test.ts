import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rmdir, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import type { SandboxRecord } from "../../src/sandbox/host/folder.ts";
import { adopt, describeBwrap, makeFolder, makeProvider } from "../sandbox/bwrap-bench.ts";
import type { TestServer } from "../support/server.ts";
import { describeFortress, runInside, runSteps, serveAs } from "./fortress-bench.ts";

const run = promisify(execFile);
const MB = 1024 * 1024;
const SIZE = 512 * MB;

/** A disk of 512 MB and 65,536 files. It goes after the servers on it have. */
async function mountDisk(): Promise<string> {
  const disk = await mkdtemp(join(tmpdir(), "sluice-disk-"));
  const options = `size=${SIZE},nr_inodes=65536,mode=1777`;
  await run("mount", ["-t", "tmpfs", "-o", options, "sluice-test", disk]).catch(async (error: unknown) => {
    await rmdir(disk);
    throw error;
  });
  return disk;
}

async function unmountDisk(disk: string): Promise<void> {
  await run("umount", [disk]);
  await rmdir(disk);
}

const canMount = await mountDisk()
  .then(unmountDisk)
  .then(
    () => true,
    () => false,
  );

/** Ways to fill a disk, each as fast as it goes; none of them ends by itself. */
const FLOODS: Readonly<Record<string, string>> = {
  "large files side by side":
    "for i in 1 2 3 4; do (while :; do dd if=/dev/zero of=f$i bs=1M count=400 2> /dev/null; done) & done; wait",
  "space that is only reserved":
    "i=0; while :; do fallocate -l 50M r$i 2> /dev/null || head -c 50000000 /dev/zero > r$i; i=$((i + 1)); done",
  "unlinked files that stay open":
    'perl -e \'my @held; my $x = "x" x 1048576; while (1) { open(my $f, ">", "u"); unlink "u"; push @held, $f; syswrite($f, $x) for 1 .. 20 }\'',
  "the folders beside the workspace":
    "while :; do for f in /tmp/a ~/b /mnt/session/uploads/c; do dd if=/dev/zero of=$f bs=1M count=300 2> /dev/null; done; done",
  "many small files":
    'perl -e \'for (my $i = 0; ; $i++) { mkdir "d" . int($i / 1000) unless $i % 1000; open(my $f, ">", "d" . int($i / 1000) . "/$i") or select(undef, undef, undef, 0.01) }\'',
};

async function ended(server: TestServer, session: string, command: string): Promise<number | undefined> {
  return (await runInside(server, session, command)).exitCode;
}

const why = canMount ? "" : " (skipped: mounting a small disk takes root)";

describe.skipIf(!canMount)(`a small disk${why}`, () => {
  describeFortress("that is flooded", (user) => {
    it.each(Object.entries(FLOODS))(
      "by %s leaves room for the log of another session",
      { timeout: 120_000 },
      async (_name, flood) => {
        const disk = await mountDisk();
        onTestFinished(() => unmountDisk(disk));
        const server = await serveAs(user, { disk });
        const options = { agent: "scripted", sandbox: "bwrap" } as const;
        for (const id of ["good", "evil1", "evil2", "evil3"])
          await server.client.sessions.create(id, options);
        await runSteps(server, "good", { say: "before" });
        const steps = Array.from({ length: 40 }, (_, index) => [
          { say: `word ${index}` },
          { shell: `echo ${index} >> numbers` },
          { sleep: 50 },
        ]).flat();
        const turn = runSteps(server, "good", ...steps);
        const floods = ["evil1", "evil2", "evil3"].map((id) => ended(server, id, flood));
        for (const one of floods) one.catch(() => {});
        // A process within the free rest may go on for ever; one that takes too much is ended.
        expect(await Promise.race(floods)).not.toBe(0);
        const events = await turn;
        const end = events.findLast(({ type }) => type === "turn.ended");
        expect(end?.data, `${JSON.stringify(end?.data)} ${server.stderr()}`).toMatchObject({
          stop_reason: "end_turn",
        });
        expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
        const numbers = (await runInside(server, "good", "cat numbers")).stdout;
        expect(numbers).toBe(Array.from({ length: 40 }, (_, index) => `${index}\n`).join(""));
        const { bavail, bsize, ffree } = await statfs(disk);
        expect(bavail * bsize).toBeGreaterThan(MB);
        expect(ffree).toBeGreaterThan(100);
      },
    );
  });
});

describeBwrap("the limit of the disk", () => {
  it("is there by default: ten gigabytes, or half of the free space", async () => {
    const { root, provider } = await makeProvider();
    adopt(await provider.create({ id: "sbx_default" }));
    const { bavail, bsize } = await statfs(root);
    const bytes = (await record(root)).limits!.diskBytes!;
    expect(bytes).toBeGreaterThan(Math.min(10 * 1024 * MB, (bavail * bsize) / 2) * 0.9);
    expect(bytes).toBeLessThanOrEqual(10 * 1024 * MB);
  });

  it(
    "does not count what a directory held before, and counts what was added",
    { timeout: 60_000 },
    async () => {
      const directory = await makeFolder();
      await chmod(directory, 0o755);
      await mkdir(join(directory, "old"));
      await writeFile(join(directory, "old/large"), Buffer.alloc(60 * MB, 1));
      const { provider } = await makeProvider();
      const sandbox = adopt(
        await provider.create({ id: "sbx_d", directory, limits: { diskBytes: 30 * MB } }),
      );
      // Moving, rewriting and touching the old is no growth.
      const tidy = await sandbox.exec(
        "mv old new; touch new/large; head -c 5000000 /dev/zero > small; sleep 3; echo fine",
      );
      expect(tidy.stdout).toBe("fine\n");
      const grow = "i=0; while :; do head -c 5000000 /dev/zero > more.$i; i=$((i + 1)); sleep 0.1; done";
      expect((await sandbox.exec(grow, { timeoutMs: 30_000 })).timedOut).toBe(false);
      expect(await sandbox.verdict!()).toBe("out of disk: limit 30 MB");
      // It may tidy up, and go on.
      expect((await sandbox.exec("rm more.*; echo tidy")).stdout).toBe("tidy\n");
      expect((await sandbox.exec("head -c 5000000 /dev/zero > again; sleep 2; echo on")).stdout).toBe("on\n");
    },
  );

  it(
    "stops one file that grows beyond it, and one that only its process knows",
    { timeout: 60_000 },
    async () => {
      const { provider } = await makeProvider();
      const sandbox = adopt(await provider.create({ id: "sbx_f", limits: { diskBytes: 20 * MB } }));
      expect(
        (await sandbox.exec("head -c 30000000 /dev/zero > one; ls -l one | cut -d' ' -f5")).stdout,
      ).toMatch(/^20971520$/m);
      await sandbox.exec("rm -f one");
      const hidden = `perl -e 'for my $i (1 .. 4) { open($f[$i], ">", "u"); unlink "u"; syswrite($f[$i], "x" x 10000000) } sleep 600'`;
      expect((await sandbox.exec(hidden, { timeoutMs: 45_000 })).timedOut).toBe(false);
      expect(await sandbox.verdict!()).toBe("out of disk: limit 20 MB");
    },
  );

  it("does not count holes", { timeout: 60_000 }, async () => {
    const { provider } = await makeProvider();
    const sandbox = adopt(await provider.create({ id: "sbx_h", limits: { diskBytes: 20 * MB } }));
    const sparse = "for i in 1 2 3 4 5; do truncate -s 15M hole.$i; done; sleep 3; echo fine";
    expect((await sandbox.exec(sparse)).stdout).toBe("fine\n");
  });
});

async function record(root: string): Promise<SandboxRecord> {
  const [name = ""] = await readdir(root);
  return JSON.parse(await readFile(join(root, name, "sandbox.json"), "utf8")) as SandboxRecord;
}
