import { execFileSync } from "node:child_process";
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import type { TestServer } from "../support/server.ts";
import { describeFortress, makeFolder, runInside, serveAs, type ServerUser } from "./fortress-bench.ts";
import { describeTree } from "./swapper.ts";

const SECRET = "the host's own secret";
/** A user id that no distribution uses, and no server of the tests. */
const SOMEBODY = { uid: 54_322, gid: 54_322 };
const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

describeFortress("the files of a sandbox", (user) => {
  it("lead by an absolute link to the file that a program inside sees there", async () => {
    const server = await serveAs(user);
    await server.client.sessions.create("s", { agent: "scripted" });
    await runInside(
      server,
      "s",
      `mkdir -p a output; echo workspace > a/f; echo home > ~/f; echo tmp > /tmp/f; echo out > output/f
      ln -s /home/user/workspace/a long; ln -s /workspace/a/f short; ln -s /tmp/f tmp; ln -s /home/user/f home; ln -s /mnt/session/outputs/f outputs; ln -s /home/user/workspace/a/../a ~/up`,
    );
    for (const [path, text] of [
      ["long/f", "workspace"],
      ["short", "workspace"],
      ["tmp", "tmp"],
      ["home", "home"],
      ["outputs", "out"],
      ["/home/user/up/f", "workspace"],
    ] as const) {
      expect([path, await read(server, path)]).toEqual([path, `${text}\n`]);
    }
    await server.client.fs.write("s", "long/new", "a client's");
    await server.client.fs.write("s", "tmp", "a client's");
    const { stdout } = await runInside(server, "s", "cat a/new /tmp/f; stat -c %U a/new /tmp/f");
    expect(stdout).toBe("a client'sa client'suser\nuser\n");
    expect((await server.client.fs.entries("s", "long")).map(({ name }) => name)).toEqual(["f", "new"]);
  });

  it("lead by no link to a path that a program inside has from the system", async () => {
    const server = await serveAs(user);
    const { canary } = await makeCanary(user);
    await server.client.sessions.create("s", { agent: "scripted" });
    const targets = [
      "/etc/passwd",
      "/etc/shadow",
      "/usr/bin/env",
      "/proc/self/environ",
      "/dev/null",
      "/",
      "/run",
    ];
    for (const [at, target] of targets.entries()) {
      await runInside(server, "s", `ln -s ${target} link-${at}`);
      for (const path of [`link-${at}`, `link-${at}/secret`, `link-${at}/passwd`]) {
        expect(await attempt(() => server.client.fs.read("s", path)), path).toMatch(/^40[34]$/);
        expect(await attempt(() => server.client.fs.write("s", path, "x")), path).toMatch(/^40[034]$/);
        expect(await attempt(() => server.client.fs.mkdir("s", `${path}/x`)), path).toMatch(/^40[034]$/);
        expect(await attempt(() => server.client.fs.entries("s", path)), path).toMatch(/^40[34]$/);
      }
    }
    // In there a path below /tmp is the sandbox's own.
    const before = await describeTree(canary);
    await runInside(server, "s", `ln -s ${canary} folder; ln -s ${canary}/secret file`);
    expect(await attempt(() => read(server, "file"))).toMatch(/^40[34]$/);
    expect(await attempt(() => server.client.fs.write("s", "file", "x"))).toBe("403");
    await server.client.fs.write("s", "folder/secret", "inside");
    expect(await read(server, "file")).toBe("inside");
    expect((await runInside(server, "s", `cat ${canary}/secret`)).stdout).toBe("inside");
    expect(await describeTree(canary)).toEqual(before);
  });

  it("give no other name of a host file away, nor change it", async () => {
    const server = await serveAs(user);
    const { canary, folder } = await makeCanary(user);
    const directory = join(folder, "directory");
    await mkdir(directory);
    // As a user without the right to read it would make it.
    await link(join(canary, "secret"), join(directory, "twin"));
    if (user.name === "root") await chown(directory, SOMEBODY.uid, SOMEBODY.gid);
    else if (user.ids !== undefined) await chown(directory, user.ids.uid, user.ids.gid);
    if (user.name !== "root") await chown(join(canary, "secret"), SOMEBODY.uid, SOMEBODY.gid).catch(() => {});
    await server.client.sessions.create("s", { agent: "scripted", directory });
    expect(await attempt(() => server.client.fs.write("s", "twin", "x"))).toBe("403");
    expect((await lstat(join(canary, "secret"))).uid).toBe((await lstat(join(directory, "twin"))).uid);
    expect(await readFile(join(canary, "secret"), "utf8")).toBe(`${SECRET}\n`);
    await server.client.fs.move("s", { from: "twin", to: "/home/user/twin" });
    await server.client.fs.remove("s", "/home/user/twin");
    const { uid, mode } = await lstat(join(canary, "secret"));
    expect([uid, mode & 0o777]).toEqual([user.name === "root" ? 0 : SOMEBODY.uid, 0o600]);
  });

  it.runIf(user.name === "root")("of another user stay theirs, written to or not", async () => {
    const server = await serveAs(user);
    const folder = await makeFolder(user);
    await chown(folder, SOMEBODY.uid, SOMEBODY.gid);
    await writeFile(join(folder, "roots"), "root's", { mode: 0o600 });
    await mkdir(join(folder, "closed"), { mode: 0o700 });
    await server.client.sessions.create("s", { agent: "scripted", directory: folder });
    await server.client.fs.write("s", "roots", "a client's");
    await server.client.fs.write("s", "closed/made", "a client's");
    await server.client.fs.write("s", "open/made", "a client's");
    const whose = async (path: string): Promise<number[]> => {
      const { uid, mode } = await lstat(join(folder, path));
      return [uid, mode & 0o7777];
    };
    expect(await whose("roots")).toEqual([0, 0o600]);
    expect(await whose("closed")).toEqual([0, 0o700]);
    expect((await whose("closed/made"))[0]).toBe(SOMEBODY.uid);
    expect((await whose("open"))[0]).toBe(SOMEBODY.uid);
    // A move to another disk keeps owners, so that nothing closed becomes the agent's.
    await server.client.fs.move("s", { from: "roots", to: "/home/user/roots" });
    const { stdout } = await runInside(server, "s", "cat ~/roots; stat -c %u ~/roots");
    expect(stdout).toBe("65534\n");
  });

  it("neither wait for a pipe nor open a device, and no set-user-id bit comes along", async () => {
    const server = await serveAs(user);
    const directory = await makeDirectory(user);
    await writeFile(join(directory, "setuid"), "#!/bin/sh\n");
    await chmod(join(directory, "setuid"), 0o6755);
    execFileSync("mkfifo", [join(directory, "pipe")]);
    if (process.geteuid?.() === 0) execFileSync("mknod", [join(directory, "device"), "c", "1", "3"]);
    if (user.ids !== undefined) execFileSync("chown", ["-R", `${user.ids.uid}:${user.ids.gid}`, directory]);
    await chmod(join(directory, "setuid"), 0o6755);
    await server.client.sessions.create("s", { agent: "scripted", directory });
    for (const path of ["pipe", ...(process.geteuid?.() === 0 ? ["device"] : [])]) {
      expect(await attempt(() => server.client.fs.read("s", path))).toBe("400");
      expect(await attempt(() => server.client.fs.write("s", path, "x"))).toBe("400");
      expect(await attempt(() => server.client.fs.move("s", { from: path, to: "/home/user/x" }))).toBe("400");
      expect((await lstat(join(directory, path))).isFile()).toBe(false);
    }
    await server.client.fs.move("s", { from: "setuid", to: "/home/user/setuid" });
    await server.client.fs.move("s", { from: "/home/user/setuid", to: "setuid" });
    expect((await stat(join(directory, "setuid"))).mode & 0o7777).toBe(0o755);
    await chmod(join(directory, "setuid"), 0o6755);
    await server.client.fs.write("s", "setuid", "a client's");
    expect((await stat(join(directory, "setuid"))).mode & 0o7777).toBe(0o755);
    // A checkpoint of all that neither waits.
    await server.client.checkpoints.create("s");
  });

  it("that claim to be huge are read piece by piece, and stay sparse where they are moved", async () => {
    const server = await serveAs(user);
    const directory = await makeDirectory(user);
    // Only where it is allowed can a single file claim to be that large.
    const limits = { diskBytes: 64 * 1024 ** 3 };
    await server.client.sessions.create("s", { agent: "scripted", directory, limits });
    await runInside(server, "s", "truncate -s 600M some; truncate -s 20G huge");
    const reader = (await server.client.fs.stream("s", "huge")).getReader();
    expect((await reader.read()).value?.length).toBeLessThan(16 * 1024 ** 2);
    await reader.cancel();
    expect(await attempt(() => server.client.fs.move("s", { from: "huge", to: "/home/user/huge" }))).toBe(
      "413",
    );
    await server.client.fs.move("s", { from: "some", to: "/home/user/some" });
    const { stdout } = await runInside(server, "s", "stat -c '%s %b' ~/some; ls -A ~ | sort");
    expect(stdout).toBe("629145600 0\nsome\nworkspace\n");
  });

  it("go with their sandbox, with any name and at any depth", async () => {
    const server = await serveAs(user);
    await server.client.sessions.create("s", { agent: "scripted" });
    await runInside(
      server,
      "s",
      `touch "$(printf 'odd\\377name')"; mkdir "$(printf 'odd\\376folder')"; touch "$(printf 'odd\\376folder/x')"
      mkdir -p closed/in/closed; chmod 0 closed/in/closed closed/in closed
      perl -e 'for (1..3000) { mkdir "d" x 50; chdir "d" x 50 or die } open F, ">", "last"'`,
    );
    await server.client.fs.write("s", "more/x", "x");
    await server.client.fs.remove("s", "more", { recursive: true });
    await server.client.terminate("s", { destroy: true });
    const left = execFileSync("find", [join(server.data, "sandboxes"), "-mindepth", "1"], {
      encoding: "utf8",
    });
    expect(left).toBe("");
  });

  it("do not show the server's data where the directory holds it, not even under another name", async () => {
    const directory = await makeFolder(user);
    const data = join(directory, "deep/er/data");
    await mkdir(data, { recursive: true });
    if (user.ids !== undefined) execFileSync("chown", ["-R", `${user.ids.uid}:${user.ids.gid}`, directory]);
    const server = await serveAs(user, { data });
    const { fs } = server.client;
    await server.client.sessions.create("s", { agent: "scripted", directory });
    // Its parent folders cannot be moved away, which would uncover it for the next command.
    await runInside(server, "s", "mv deep/er deep/other; mv deep other; ln -s deep/er/data link");
    const { stdout } = await runInside(
      server,
      "s",
      `grep -rl "${server.token}" . ; ls deep/er/data link/; true`,
    );
    expect(stdout).toBe("deep/er/data:\n\nlink/:\n");
    for (const path of ["deep/er/data/token", "link/token"]) {
      expect(await attempt(() => fs.read("s", path))).toBe("403");
    }
    for (const path of ["deep", "deep/er", "deep/er/data"]) {
      expect(await attempt(() => fs.remove("s", path, { recursive: true }))).toBe("403");
      expect(await attempt(() => fs.move("s", { from: path, to: "away" }))).toBe("403");
    }
    expect((await readFile(join(data, "token"), "utf8")).trim()).toBe(server.token);
  });

  it("of a directory that another session's agent replaced by a link are left alone", async () => {
    const server = await serveAs(user);
    const { canary } = await makeCanary(user);
    const above = await makeFolder(user);
    const below = join(above, "below");
    await mkdir(below);
    if (user.ids !== undefined) await chown(below, user.ids.uid, user.ids.gid);
    const before = await describeTree(canary);
    await server.client.sessions.create("victim", { agent: "scripted", directory: below });
    await runInside(server, "victim", "echo mine > secret");
    await server.client.sessions.create("attacker", { agent: "scripted", directory: above });
    await runInside(server, "attacker", `mv below away; ln -s ${canary} below`);
    expect(await attempt(() => read(server, "secret", "victim"))).toMatch(/^40[34]$/);
    expect(await attempt(() => server.client.fs.write("victim", "made", "x"))).toMatch(/^40[34]$/);
    expect(await attempt(() => server.client.checkpoints.create("victim"))).toMatch(/^4/);
    const ran = await runInside(server, "victim", "cat secret; touch made").catch(() => ({ stdout: "" }));
    expect(ran.stdout).toBe("");
    await server.client.sessions.delete("victim");
    expect(await describeTree(canary)).toEqual(before);
  });
});

async function read(server: TestServer, path: string, session = "s"): Promise<string> {
  return Buffer.from(await server.client.fs.read(session, path)).toString();
}

/** The status of a refusal, or the result. */
async function attempt(call: () => Promise<unknown>): Promise<string> {
  try {
    return `done: ${String(await call())}`;
  } catch (error) {
    return String((error as { status?: number }).status ?? error);
  }
}

/** A folder of the server's user with a secret in it. */
async function makeCanary(user: ServerUser): Promise<{ folder: string; canary: string }> {
  const folder = await makeFolder(user);
  const canary = join(folder, "canary");
  await mkdir(canary);
  await writeFile(join(canary, "secret"), `${SECRET}\n`, { mode: 0o600 });
  await symlink("secret", join(canary, "link"));
  if (user.ids !== undefined) execFileSync("chown", ["-hR", `${user.ids.uid}:${user.ids.gid}`, folder]);
  return { folder, canary };
}

/** A directory of the server's user on another disk than the data, where there is one. */
async function makeDirectory(user: ServerUser): Promise<string> {
  const isThere = await stat("/dev/shm").then(
    (found) => found.isDirectory(),
    () => false,
  );
  const directory = await mkdtemp(join(isThere ? "/dev/shm" : tmpdir(), "sluice-fortress-"));
  folders.push(directory);
  if (user.ids !== undefined) await chown(directory, user.ids.uid, user.ids.gid);
  return directory;
}
