import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { run, say } from "./setup.mjs";

/** The cache of large third-party packages that only tests need. None is a dependency of the package. */
export function cacheFolder(...names) {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sluice", ...names);
}

/** Installs packages into a folder of their own, unless `proof` is in it already. False where they cannot be installed. */
export async function ensurePackages(folder, { specs, proof, what, args = [], env = () => ({}) }) {
  if (existsSync(join(folder, proof))) return true;
  say(`installing ${what} for the tests …`);
  // Installed elsewhere and renamed: an interrupted install leaves no folder of this name.
  const partial = `${folder}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  writeFileSync(join(partial, "package.json"), "{}\n");
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const command = ["install", ...specs, "--prefix", partial, ...quiet, ...args];
  const ended = await run("npm", command, { quiet: true, env: { ...process.env, ...env(partial) } });
  if (ended.code === 0) {
    rmSync(folder, { recursive: true, force: true });
    renameSync(partial, folder);
    return true;
  }
  process.stderr.write(ended.output);
  say(`could not install ${what}: the tests that need it are skipped, or fail under CI=true`);
  return false;
}
