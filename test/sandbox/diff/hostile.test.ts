import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { appendFile, chmod, cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readHeadFile } from "../../../src/sandbox/diff/private-repository.ts";
import { workspaceDiff } from "../../../src/sandbox/diff/workspace-diff.ts";

let place = "";

beforeEach(async () => {
  place = await mkdtemp(join(tmpdir(), "sluice-hostile-"));
});

afterEach(() => rm(place, { recursive: true, force: true }));

const ENV = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@localhost",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@localhost",
};

function git(folder: string, ...args: string[]): string {
  return execFileSync("git", args, {
    cwd: folder,
    env: ENV,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

async function makeRepository(name: string, content: string): Promise<string> {
  const folder = join(place, name);
  await mkdir(folder);
  git(folder, "init", "-q", "-b", "main");
  await writeFile(join(folder, "file.txt"), content);
  git(folder, "add", "-A");
  git(folder, "commit", "-qm", "1");
  return folder;
}

/** Settings and files that make an ordinary `git status` or `git diff` run programs. */
async function arm(gitDir: string, worktree: string, trap: string): Promise<void> {
  const run = `sh -c 'touch ${trap}; cat'`;
  await appendFile(
    join(gitDir, "config"),
    `[core]
	fsmonitor = "touch ${trap}; false"
	hooksPath = ${join(place, "hooks")}
	sshCommand = touch ${trap}
	pager = touch ${trap}
	editor = touch ${trap}
	askPass = ${join(place, "hooks/post-index-change")}
	alternateRefsCommand = touch ${trap}
[diff]
	external = touch ${trap}
[diff "evil"]
	textconv = "touch ${trap}; cat"
	command = touch ${trap}
[filter "evil"]
	clean = ${run}
	smudge = ${run}
	process = touch ${trap}
	required = true
[alias]
	ls-files = "!touch ${trap}"
	update-index = "!touch ${trap}"
	diff-index = "!touch ${trap}"
[include]
	path = ${join(place, "included")}
`,
  );
  await writeFile(join(place, "included"), `[core]\n\tfsmonitor = touch ${trap}\n`);
  await writeFile(join(worktree, ".gitattributes"), "* filter=evil diff=evil\n");
  for (const hooks of [join(place, "hooks"), join(gitDir, "hooks")]) {
    await mkdir(hooks, { recursive: true });
    for (const name of ["post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"]) {
      await writeFile(join(hooks, name), `#!/bin/sh\ntouch ${trap}\n`);
      await chmod(join(hooks, name), 0o755);
    }
  }
}

describe("a hostile workspace", () => {
  it("runs no program of the repository, by no setting and by no submodule", async () => {
    const folder = await makeRepository("workspace", "1\n");
    const inner = await makeRepository("inner", "1\n");
    git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub");
    git(folder, "commit", "-qm", "2");
    const trap = join(place, "trap");
    await arm(join(folder, ".git"), folder, trap);
    await arm(join(folder, ".git/modules/sub"), join(folder, "sub"), trap);
    await writeFile(join(folder, "file.txt"), "2\n");
    await writeFile(join(folder, "new.txt"), "new\n");
    await writeFile(join(folder, "sub/file.txt"), "2\n");

    const result = await workspaceDiff(folder, { explain: (reason) => expect.fail(reason) });
    expect(result?.diff).toContain("-1\n+2\n");
    expect(result?.diff).toContain("+new\n");
    expect(await readHeadFile(folder, "file.txt", { maxBytes: 100 })).toEqual(Buffer.from("1\n"));
    expect(existsSync(trap)).toBe(false);
    // The trap is a real one.
    try {
      git(folder, "status");
    } catch {
      // It may fail; only the programs that it ran count.
    }
    expect(existsSync(trap)).toBe(true);
  });

  it("shows nothing of another repository as its own history", async () => {
    const other = await makeRepository("other", "secret\n");
    const commit = git(other, "rev-parse", "HEAD").trim();
    const attempts: Record<string, (folder: string) => Promise<void>> = {
      "a .git file that names it": async (folder) => {
        await rm(join(folder, ".git"), { recursive: true });
        await writeFile(join(folder, ".git"), `gitdir: ${join(other, ".git")}\n`);
      },
      "a symlink to its git folder": async (folder) => {
        await rm(join(folder, ".git"), { recursive: true });
        await symlink(join(other, ".git"), join(folder, ".git"));
      },
      "a common folder elsewhere": (folder) => writeFile(join(folder, ".git/commondir"), join(other, ".git")),
      "objects elsewhere": async (folder) => {
        await rm(join(folder, ".git/objects"), { recursive: true });
        await symlink(join(other, ".git/objects"), join(folder, ".git/objects"));
        await writeFile(join(folder, ".git/HEAD"), commit);
      },
      "every folder of objects, and the references, elsewhere": async (folder) => {
        for (const name of await readdir(join(other, ".git/objects"))) {
          if (!/^[0-9a-f]{2}$/.test(name)) continue;
          await rm(join(folder, ".git/objects", name), { recursive: true, force: true });
          await symlink(join(other, ".git/objects", name), join(folder, ".git/objects", name));
        }
        await rm(join(folder, ".git/refs/heads"), { recursive: true });
        await symlink(join(other, ".git/refs/heads"), join(folder, ".git/refs/heads"));
      },
      "packs elsewhere": async (folder) => {
        git(other, "gc", "-q");
        await rm(join(folder, ".git/objects/pack"), { recursive: true });
        await symlink(join(other, ".git/objects/pack"), join(folder, ".git/objects/pack"));
        await writeFile(join(folder, ".git/HEAD"), commit);
      },
      "alternates elsewhere": async (folder) => {
        await writeFile(join(folder, ".git/objects/info/alternates"), `${join(other, ".git/objects")}\n`);
        await writeFile(join(folder, ".git/HEAD"), commit);
      },
      "alternates of alternates": async (folder) => {
        await mkdir(join(folder, "more/info"), { recursive: true });
        await writeFile(join(folder, "more/info/alternates"), `${join(other, ".git/objects")}\n`);
        await writeFile(join(folder, ".git/objects/info/alternates"), `${join(folder, "more")}\n`);
        await writeFile(join(folder, ".git/HEAD"), commit);
      },
    };
    for (const [name, attempt] of Object.entries(attempts)) {
      const folder = await makeRepository(name.replaceAll(" ", "-"), "own\n");
      await attempt(folder);
      await rm(join(folder, "file.txt"));
      let reason = "";
      const result = await workspaceDiff(folder, { explain: (text) => (reason = text) });
      expect(result, name).toBeUndefined();
      expect(reason, name).not.toBe("");
      expect((await readHeadFile(folder, "file.txt", { maxBytes: 100 }))?.toString(), name).not.toBe(
        "secret\n",
      );
    }
  });

  it("follows where it is trusted to", async () => {
    const other = await makeRepository("other", "shared\n");
    const folder = join(place, "clone");
    git(place, "clone", "-q", "--shared", other, folder);
    await writeFile(join(folder, "file.txt"), "changed\n");
    expect(await workspaceDiff(folder)).toBeUndefined();
    expect((await workspaceDiff(folder, { confined: false }))?.diff).toContain("-shared\n+changed\n");
  });

  it("does not wait for a pipe without a writer", async () => {
    const folder = await makeRepository("workspace", "1\n");
    for (const name of ["HEAD", "index", "packed-refs"]) {
      await rm(join(folder, ".git", name), { force: true });
      execFileSync("mkfifo", [join(folder, ".git", name)]);
    }
    execFileSync("mkfifo", [join(folder, "pipe")]);
    await writeFile(join(folder, "file.txt"), "2\n");
    const result = await workspaceDiff(folder, { timeoutMs: 20_000 });
    expect(result?.diff).toContain("+2\n");
    await cp(join(place, "workspace/file.txt"), join(folder, "again"));
    await rm(join(folder, ".git/config"));
    execFileSync("mkfifo", [join(folder, ".git/config")]);
    let reason = "";
    expect(
      await workspaceDiff(folder, { timeoutMs: 300, explain: (text) => (reason = text) }),
    ).toBeUndefined();
    expect(reason).toBe("git took too long");
  });

  it("has no content read through a symlink", async () => {
    const folder = await makeRepository("workspace", "1\n");
    await writeFile(join(place, "secret"), "secret\n");
    await mkdir(join(place, "secrets"));
    await writeFile(join(place, "secrets/file"), "secret\n");
    await symlink(join(place, "secret"), join(folder, "link"));
    await symlink(join(place, "secrets"), join(folder, "links"));
    const result = await workspaceDiff(folder);
    expect(result?.diff).toContain(`+${join(place, "secret")}\n`);
    expect(result?.diff).not.toContain("+secret");
  });
});
