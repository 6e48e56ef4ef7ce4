import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { delimiter, join } from "node:path";
import { cacheFolder } from "./cache.mjs";
import { findProgram, run, say } from "./setup.mjs";

const PROXIES = ["nginx", "caddy"];

/** A PATH that has the reverse proxies too. They are unpacked, not installed: an installed one would start to serve. */
export async function ensureProxies(path) {
  const missing = PROXIES.filter((name) => !findProgram(name));
  if (missing.length === 0 || !findProgram("apt-get") || !findProgram("dpkg-deb")) return path;
  const folder = cacheFolder("proxies");
  if (!existsSync(folder)) await unpack(missing, folder);
  return [path, join(folder, "usr/sbin"), join(folder, "usr/bin")].join(delimiter);
}

async function unpack(packages, folder) {
  say(`unpacking ${packages.join(" and ")} for the tests …`);
  const partial = `${folder}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  const apt = (...args) => run("apt-get", ["-qq", ...args], { quiet: true, cwd: partial });
  const download = async () => (await apt("download", ...packages)).code === 0;
  // The package lists of a fresh machine are empty or old.
  const isThere = (await download()) || ((await apt("update")).code === 0 && (await download()));
  if (!isThere) return say("could not download them: their tests are skipped, or fail under CI=true");
  for (const file of readdirSync(partial).filter((name) => name.endsWith(".deb")))
    await run("dpkg-deb", ["-x", join(partial, file), partial], { quiet: true });
  renameSync(partial, folder);
}
