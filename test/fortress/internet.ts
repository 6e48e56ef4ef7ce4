import { execFile, execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** A network namespace in which 93.184.0.0/16 is the internet; of 93.184.1.1 it says that it is its own. */
const ROUTES = `
  ip route add local 93.184.0.0/16 dev lo && ip addr add 93.184.1.1/32 dev lo &&
  ip route add local 10.0.0.0/8 dev lo && ip route add local 169.254.0.0/16 dev lo || exit 1
  exec "$@"`;
const ISOLATION = "--unshare-user --unshare-net --die-with-parent --uid 0 --gid 0 --cap-add ALL";
const HOSTS = `127.0.0.1 localhost
93.184.2.2 public.test
10.0.0.5 internal.test
127.0.0.1 rebound.test
169.254.169.254 metadata.test
93.184.1.1 own.test
`;

/** Why there is no such namespace here; undefined where there is. */
export const missing: string | undefined = whyMissing();

/** Runs a program of `programs/` there, with a git repository to serve, and returns its JSON output. */
export async function runInInternet(program: string): Promise<unknown> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-internet-"));
  try {
    const hosts = join(folder, "hosts");
    writeFileSync(hosts, HOSTS);
    execFileSync("sh", ["-c", REPOSITORY], { cwd: folder });
    const file = resolve(import.meta.dirname, "programs", program);
    const bin = resolve(import.meta.dirname, "../../bin/sluice");
    const inside = ["--dev-bind", "/", "/", "--ro-bind", hosts, "/etc/hosts", "sh", "-c", ROUTES, "internet"];
    const args = [...ISOLATION.split(" "), ...inside, process.execPath, file, bin, folder];
    const { stdout } = await run("bwrap", args, { maxBuffer: 64 * 1024 * 1024, timeout: 240_000 });
    return JSON.parse(stdout) as unknown;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const REPOSITORY = `
  git init --quiet --bare project.git &&
  git clone --quiet project.git work 2>/dev/null && cd work && git checkout --quiet -b main &&
  printf 'over http' > a.txt && git add . &&
  git -c user.name=t -c user.email=t@t commit --quiet -m one && git push --quiet origin main &&
  git -C ../project.git symbolic-ref HEAD refs/heads/main`;

function whyMissing(): string | undefined {
  const bwrap = [...ISOLATION.split(" "), "--dev-bind", "/", "/", "sh", "-c", ROUTES, "internet", "true"];
  if (spawnSync("bwrap", bwrap).status === 0) return undefined;
  const reason = "bwrap or ip does not run here; install them: apt-get install bubblewrap iproute2";
  if (process.env["CI"] === "true") throw new Error(`${reason}, and under CI=true these tests must run`);
  return reason;
}
