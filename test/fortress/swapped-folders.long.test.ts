import { execFileSync } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import type { TestServer } from "../support/server.ts";
import { describeFortress, makeFolder, runInside, serveAs, type ServerUser } from "./fortress-bench.ts";
import { describeTree, startSwapping } from "./swapper.ts";

/** A user id that no distribution uses, and no server of the tests. */
const SOMEBODY = { uid: 54_322, gid: 54_322 };
const SECRET = "the host's own secret";
const ROUNDS = 25;

interface Situation {
  readonly name: string;
  /** Whose the workspace's folder is; none is a private one. */
  readonly directory?: "the server's" | "somebody else's";
}

const isOtherDisk = await Promise.all([stat("/dev/shm"), stat(tmpdir())]).then(
  ([a, b]) => a.dev !== b.dev,
  () => false,
);
const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

describeFortress("a folder that is swapped for a link", (user) => {
  const situations: Situation[] = [
    { name: "a private workspace" },
    { name: "a directory of the server's on another disk", directory: "the server's" },
    ...(user.name === "root"
      ? [{ name: "a directory of another user's on another disk", directory: "somebody else's" } as const]
      : []),
  ];

  it.each(situations)("leads no call of a client to the host: $name", async (situation) => {
    const { server, canary, directory } = await arrange(user, situation);
    await server.client.sessions.create("victim", { agent: "scripted", ...directory });
    await runInside(server, "victim", "mkdir -p swap/inner tree/inner; echo mine > swap/secret");
    const before = await describeTree(canary);
    const attack = await startSwapping(server, "victim", [
      { victim: "swap", link: "swap.link", target: canary },
    ]);
    const calls = new Calls(server, "victim");
    for (let round = 0; round < ROUNDS; round += 1) {
      await calls.read("swap/secret");
      await calls.read("swap/sub/deep");
      await calls.write("swap/made");
      await calls.write("swap/new/deep/made");
      await calls.mkdir("swap/folder/in/folder");
      await calls.upload("swap/batch");
      await calls.list("swap");
      await calls.stat("swap/secret");
      await calls.move("swap/made", "/home/user/taken");
      await calls.move("/home/user/taken", "swap/brought");
      await calls.move("swap/secret", "swap/secret.moved");
      await calls.remove("swap/sub");
      await calls.remove("swap/new");
    }
    await attack.stop();
    expect(await describeTree(canary)).toEqual(before);
    expect(calls.failures).toEqual([]);
    expect(calls.seen.filter((text) => text.includes(SECRET))).toEqual([]);
    const { stdout } = await runInside(server, "victim", `grep -rl "${SECRET}" . ~ /tmp; true`);
    expect(stdout).toBe("");
  });

  it.each(situations)("leads no move of a whole folder to the host: $name", async (situation) => {
    const { server, canary, directory } = await arrange(user, situation);
    const before = await describeTree(canary);
    await server.client.sessions.create("victim", { agent: "scripted", ...directory });
    const calls = new Calls(server, "victim");
    // First where the folder comes to, then where it comes from.
    for (const victim of ["/home/user/moved/inner", "tree/inner"]) {
      const link = victim === "tree/inner" ? "inner.link" : "/home/user/inner.link";
      const attack = await startSwapping(server, "victim", [{ victim, link, target: canary }]);
      for (let round = 0; round < ROUNDS; round += 1) {
        await Promise.all(["a", "b", "c", "d", "e"].map((name) => calls.write(`tree/inner/${name}`)));
        await calls.move("tree", "/home/user/moved");
        await calls.read("/home/user/moved/inner/secret");
        await calls.read("/home/user/moved/inner/sub/deep");
        await calls.remove("/home/user/moved");
        await calls.remove("tree");
      }
      await attack.stop();
    }
    expect(await describeTree(canary)).toEqual(before);
    expect(calls.failures).toEqual([]);
    expect(calls.seen.filter((text) => text.includes(SECRET))).toEqual([]);
    const { stdout } = await runInside(server, "victim", `grep -rl "${SECRET}" . ~ /tmp; true`);
    expect(stdout).toBe("");
  });

  it.each(situations.filter(({ directory }) => directory !== undefined))(
    "leads no checkpoint and no restore to the host: $name",
    async (situation) => {
      const { server, canary, directory } = await arrange(user, situation);
      // Two sessions in one folder: while the one is restored, the other's agent goes on.
      await server.client.sessions.create("victim", { agent: "scripted", ...directory });
      await server.client.sessions.create("attacker", { agent: "scripted", ...directory });
      await runInside(
        server,
        "victim",
        "for d in a/b/c a/b e; do mkdir -p $d; for n in 1 2 3 4 5 6 7 8 9; do echo $d$n > $d/file-$n; done; done",
      );
      const { id } = await server.client.checkpoints.create("victim");
      const before = await describeTree(canary);
      const attack = await startSwapping(server, "attacker", [
        // The staged entries and the existing ones.
        { victim: ".sluice-restore-*/0/b", link: "stage.link", target: canary },
        { victim: "e", link: "e.link", target: canary },
      ]);
      const calls = new Calls(server, "victim");
      for (let round = 0; round < ROUNDS / 2; round += 1) {
        await calls.remove("a");
        await calls.run(() => server.client.checkpoints.restore("victim", id));
        await calls.run(() => server.client.checkpoints.create("victim"));
      }
      await attack.stop();
      expect(await describeTree(canary)).toEqual(before);
      expect(calls.failures).toEqual([]);
      // Nothing of the host is in any checkpoint.
      await server.client.sessions.create("reader", { agent: "scripted" });
      for (const { id: taken } of await server.client.checkpoints.list("victim")) {
        await server.client.checkpoints.restore("reader", taken);
        const { stdout } = await runInside(server, "reader", `grep -rl "${SECRET}" . ; true`);
        expect(stdout).toBe("");
      }
    },
  );

  it.each(situations)("leads no removal of a whole sandbox to the host: $name", async (situation) => {
    const { server, canary, directory } = await arrange(user, situation);
    const before = await describeTree(canary);
    for (let round = 0; round < 3; round += 1) {
      const session = `victim-${round}`;
      await server.client.sessions.create(session, { agent: "scripted", ...directory });
      await runInside(server, session, `mkdir -p ~/swap/sub; chmod 0 ~/swap/sub; ln -s ${canary} ~/fixed`);
      await startSwapping(server, session, [
        { victim: "/home/user/swap", link: "/home/user/link", target: canary },
      ]);
      await server.client.sessions.delete(session);
    }
    expect(await describeTree(canary)).toEqual(before);
  });
});

interface Arranged {
  readonly server: TestServer;
  readonly canary: string;
  readonly directory: { readonly directory?: string };
}

async function arrange(user: ServerUser, situation: Situation): Promise<Arranged> {
  const server = await serveAs(user);
  const canary = join(await makeFolder(user), "canary");
  await mkdir(join(canary, "sub"), { recursive: true });
  for (const [path, text] of [
    ["secret", SECRET],
    ["sub/deep", SECRET],
    ["1", SECRET],
  ] as const) {
    await writeFile(join(canary, path), `${text}\n`);
  }
  // Closed, so that a server that opens it to empty it would fail visibly.
  await chmod(join(canary, "sub"), 0o500);
  if (user.ids !== undefined) {
    for (const path of ["", "sub", "secret", "sub/deep", "1"])
      await chown(join(canary, path), user.ids.uid, user.ids.gid);
  }
  if (situation.directory === undefined) return { server, canary, directory: {} };
  const directory = await mkdtemp(join(isOtherDisk ? "/dev/shm" : tmpdir(), "sluice-fortress-"));
  folders.push(directory);
  const owner = situation.directory === "somebody else's" ? SOMEBODY : user.ids;
  if (owner !== undefined) await chown(directory, owner.uid, owner.gid);
  return { server, canary, directory: { directory } };
}

/** Calls of a client that may be refused at any moment, but never crash the server and never show the host's files. */
class Calls {
  readonly seen: string[] = [];
  readonly failures: string[] = [];
  readonly #server: TestServer;
  readonly #session: string;

  constructor(server: TestServer, session: string) {
    this.#server = server;
    this.#session = session;
  }

  get #fs(): TestServer["client"]["fs"] {
    return this.#server.client.fs;
  }

  read = (path: string): Promise<void> =>
    this.run(async () => {
      this.seen.push(Buffer.from(await this.#fs.read(this.#session, path)).toString());
    });
  write = (path: string): Promise<void> => this.run(() => this.#fs.write(this.#session, path, "a client's"));
  mkdir = (path: string): Promise<void> => this.run(() => this.#fs.mkdir(this.#session, path));
  list = (path: string): Promise<void> => this.run(() => this.#fs.entries(this.#session, path));
  stat = (path: string): Promise<void> => this.run(() => this.#fs.stat(this.#session, path));
  remove = (path: string): Promise<void> =>
    this.run(() => this.#fs.remove(this.#session, path, { recursive: true }));
  move = (from: string, to: string): Promise<void> =>
    this.run(() => this.#fs.move(this.#session, { from, to, overwrite: true }));
  upload = (path: string): Promise<void> =>
    this.run(() => this.#fs.uploadBatch(this.#session, path, archive()));

  async run(call: () => Promise<unknown>): Promise<void> {
    try {
      await call();
    } catch (error) {
      const { status = 0, message } = error as { status?: number; message: string };
      if (status >= 500 || status === 0) this.failures.push(`${status} ${message}`);
    }
  }
}

let packed: Buffer | undefined;

function archive(): Buffer {
  packed ??= execFileSync("tar", [
    "-C",
    "/usr/share",
    "-cf",
    "-",
    "--transform",
    "s,.*,in/out,",
    "zoneinfo/UTC",
  ]);
  return packed;
}
