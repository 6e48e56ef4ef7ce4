import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { chmod, chown, mkdir, writeFile } from "node:fs/promises";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import type { TestServer } from "../support/server.ts";
import {
  describeFortress,
  makeFolder,
  runInside,
  runSteps,
  serveAs,
  type ServerUser,
} from "./fortress-bench.ts";
import { startSwapping } from "./swapper.ts";

const SECRET = "the host's own secret";
const INIT =
  "git init -q -b main . && git config user.name a && git config user.email a@localhost && mkdir -p src && echo one > src/file && echo one > file && git add -A && git commit -qm 1 && echo two > file";
const NOTHING = { say: "done" };
/** No process may be waiting any more. */
const UNBLOCK = `timeout 5 sh -c "echo > .git/config"; rm .git/config; printf '[core]\\n\\tbare = false\\n' > .git/config`;
const NO_RIGHTS = "0000000000000000";

describeFortress("git on an agent's repository", (user) => {
  it("runs as the sandbox's owner and sees nothing but the system and the repository", async () => {
    const server = await serveAs(user);
    const { folder } = await makeSecret(user);
    await server.client.sessions.create("s", { agent: "scripted" });
    await runInside(server, "s", INIT);
    await runSteps(server, "s", NOTHING);
    // Git waits for a writer of its settings, so there is time to look at it.
    await runInside(server, "s", "rm .git/config; mkfifo .git/config");
    const turn = runSteps(server, "s", { write: { path: "more", content: "x" } });
    const seen = await untilSeen([folder, server.data, "/etc/passwd", "/usr/bin"]);
    await runInside(server, "s", UNBLOCK);
    await turn;
    expect(seen).toEqual([
      { uid: user.ids?.uid ?? ownerOf(server), capabilities: NO_RIGHTS, sees: ["/usr/bin"] },
    ]);
    expect(lastDiff(await runSteps(server, "s", { write: { path: "more", content: "y" } }))).toContain(
      "+two",
    );
  });

  it.runIf(user.name === "root")("has no right of root's in a directory of root's either", async () => {
    const server = await serveAs(user);
    const directory = await makeFolder(user);
    await server.client.sessions.create("s", { agent: "scripted", directory });
    await runInside(server, "s", INIT);
    await runSteps(server, "s", NOTHING);
    await runInside(server, "s", "rm .git/config; mkfifo .git/config");
    const turn = runSteps(server, "s", { write: { path: "more", content: "x" } });
    const seen = await untilSeen([server.data, "/etc/passwd", "/usr/bin"]);
    await runInside(server, "s", UNBLOCK);
    await turn;
    expect(seen).toEqual([{ uid: 0, capabilities: NO_RIGHTS, sees: ["/usr/bin"] }]);
  });

  it("shows nothing of the host, with any settings of the repository", async () => {
    const server = await serveAs(user);
    const { folder, repository, commit } = await makeSecret(user);
    const attempts: Record<string, string> = {
      "a worktree elsewhere": `git config core.worktree ${folder}`,
      "a .git file that names a host repository": `rm -rf .git; echo "gitdir: ${repository}/.git" > .git`,
      "a .git link to a host repository": `rm -rf .git; ln -s ${repository}/.git .git`,
      "alternates of the host": `echo ${repository}/.git/objects > .git/objects/info/alternates; echo ${commit} > .git/HEAD`,
      "relative alternates of the host": `echo ../../../../../../../..${repository}/.git/objects > .git/objects/info/alternates; echo ${commit} > .git/HEAD`,
      "objects of the host": `rm -rf .git/objects; ln -s ${repository}/.git/objects .git/objects; echo ${commit} > .git/HEAD`,
      "a common folder of the host": `echo ${repository}/.git > .git/commondir; echo ${commit} > .git/HEAD`,
      "an included file of the host": `git config include.path ${folder}/secret; git config core.attributesFile ${folder}/secret; git config core.excludesFile ${folder}/secret`,
      "references of the host": `rm -rf .git/refs; ln -s ${repository}/.git/refs .git/refs; rm -f .git/packed-refs`,
      "an index of the host": `rm .git/index; ln -s ${repository}/.git/index .git/index`,
      "replaced objects": `git replace $(git rev-parse HEAD) $(git commit-tree -m x $(git mktree < /dev/null)); git config core.useReplaceRefs true`,
      "a submodule that lies elsewhere": `mkdir sub; echo "gitdir: ${repository}/.git" > sub/.git; git update-index --add --cacheinfo 160000,${commit},sub; echo '[submodule "sub"] path = sub url = ${repository}' > .gitmodules`,
      "attributes that read the host": `echo "* working-tree-encoding=UTF-16 filter=evil diff=evil ident" > .gitattributes; git config filter.evil.clean "cat ${folder}/secret"; git config diff.evil.textconv "cat ${folder}/secret"; git config diff.evil.command "cat ${folder}/secret"`,
      "a monitor, hooks and aliases that run": `git config core.fsmonitor "cat ${folder}/secret > leaked"; git config core.hooksPath .hooks; mkdir .hooks; printf '#!/bin/sh\\ncat ${folder}/secret > leaked' > .hooks/post-index-change; chmod +x .hooks/*; git config alias.diff "!cat ${folder}/secret > leaked"`,
      "an index that is far too long": "truncate -s 100G .git/index",
      "a head that is a pipe": "rm .git/HEAD; mkfifo .git/HEAD",
      "links to the host in the worktree": `ln -s ${folder}/secret link; ln -s ${folder} links; rm -rf src; ln -s ${folder} src`,
      "a name of a host file with a newline": `ln -s ${folder}/secret 'a
b'`,
    };
    await server.client.sessions.create("s", { agent: "scripted" });
    for (const [name, attempt] of Object.entries(attempts)) {
      await runInside(server, "s", `find . -mindepth 1 -delete; ${INIT}; ${attempt}`);
      const events = await runSteps(server, "s", { write: { path: "last", content: "x\n" } });
      expect(JSON.stringify(events).includes(SECRET), name).toBe(false);
      expect((await runInside(server, "s", "test ! -e leaked")).exitCode, name).toBe(0);
    }
    expect(readdirSync(folder).sort()).toEqual(["repository", "secret"]);
  });

  it("shows nothing of the host while folders are swapped for links", async () => {
    const server = await serveAs(user);
    const { folder, repository } = await makeSecret(user);
    await server.client.sessions.create("s", { agent: "scripted" });
    await runInside(server, "s", `${INIT}; echo two > src/file; echo new > src/secret`);
    const attack = await startSwapping(server, "s", [
      { victim: "src", link: "src.link", target: folder },
      { victim: ".git/objects", link: "objects.link", target: `${repository}/.git/objects` },
    ]);
    for (let round = 0; round < 8; round += 1) {
      const events = await runSteps(server, "s", { write: { path: `file-${round}`, content: "x\n" } });
      expect(JSON.stringify(events).includes(SECRET)).toBe(false);
    }
    await attack.stop();
  });
});

interface Seen {
  readonly uid: number;
  readonly capabilities: string;
  /** Those of the paths that are there for it. */
  readonly sees: readonly string[];
}

/** The processes of git that read a repository's settings at this moment. */
function findGits(paths: readonly string[]): Seen[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const program = readlinkSync(`/proc/${pid}/exe`);
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      if (!program.endsWith("/git") || !words.includes("--no-includes")) return [];
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
      const capabilities = /^CapEff:\s+(\S+)/m.exec(status)?.[1] ?? "";
      return [{ uid, capabilities, sees: paths.filter((path) => existsSync(`/proc/${pid}/root${path}`)) }];
    } catch {
      return [];
    }
  });
}

async function untilSeen(paths: readonly string[]): Promise<Seen[]> {
  for (let tries = 0; tries < 1_000; tries += 1) {
    const seen = findGits(paths);
    if (seen.length > 0) return seen;
    await sleep(10);
  }
  return [];
}

/** Whose the private workspace of the only sandbox is. */
function ownerOf(server: TestServer): number {
  const folder = join(server.data, "sandboxes");
  const [sandbox = ""] = readdirSync(folder);
  const stat = execFileSync("stat", ["-c", "%u", join(folder, sandbox, "workspace")], { encoding: "utf8" });
  return Number(stat);
}

function lastDiff(events: readonly { type: string; data: unknown }[]): string {
  const found = events.findLast(({ type }) => type === "workspace.diffed");
  return (found?.data as { diff?: string } | undefined)?.diff ?? "";
}

/** A folder of the server's user with a secret, and a repository with the same in its history. */
async function makeSecret(user: ServerUser): Promise<{ folder: string; repository: string; commit: string }> {
  const folder = await makeFolder(user);
  const repository = join(folder, "repository");
  await mkdir(repository);
  await writeFile(join(folder, "secret"), `${SECRET}\n`);
  await writeFile(join(repository, "file"), `${SECRET}\n`);
  await mkdir(join(repository, "src"));
  await writeFile(join(repository, "src/file"), `${SECRET}\n`);
  const git = (...args: string[]): string =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@localhost", ...args], {
      cwd: repository,
      encoding: "utf8",
    });
  git("init", "-q", "-b", "main");
  git("add", "-A");
  git("commit", "-qm", "1");
  const commit = git("rev-parse", "HEAD").trim();
  if (user.ids !== undefined) execFileSync("chown", ["-R", `${user.ids.uid}:${user.ids.gid}`, folder]);
  await chmod(folder, 0o755);
  if (user.ids !== undefined) await chown(folder, user.ids.uid, user.ids.gid);
  return { folder, repository, commit };
}
