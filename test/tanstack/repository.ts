import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A folder under git, with one committed file. */
export async function createRepository(): Promise<{
  folder: string;
  diff(): Promise<string>;
  remove(): Promise<void>;
}> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-repository-"));
  const git = (...args: string[]) => run("git", ["-c", "safe.directory=*", ...args], { cwd: folder });
  await git("init", "-q");
  await writeFile(join(folder, "a.txt"), "one\ntwo\n");
  await writeFile(join(folder, "b.txt"), "three\n");
  await git("add", ".");
  await git("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first");
  await chmod(folder, 0o777);
  return {
    folder,
    diff: async () => (await git("diff")).stdout,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
