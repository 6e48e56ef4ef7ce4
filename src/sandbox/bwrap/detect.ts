import { execFile } from "node:child_process";
import { access, constants, readFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { toHolderOptions } from "./arguments.ts";
import { toOwner } from "./user.ts";

const run = promisify(execFile);

export interface Detected {
  readonly available: boolean;
  readonly reason?: string;
}

/** What runs around bwrap is found here; the server's own search path would tell the sandbox about the server. */
const SYSTEM_PATH = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Really starts something in a sandbox. The answer says what to do where that fails. */
export async function detectBwrap(bwrap: string | undefined): Promise<Detected> {
  if (process.platform !== "linux") return no("bubblewrap needs Linux; choose another sandbox provider");
  if (bwrap === undefined) return no("bubblewrap is not installed: apt-get install bubblewrap");
  const owner = await toOwner("probe", undefined);
  const drop = owner === undefined ? [] : toDropPrefix(owner);
  const argv = [...drop, bwrap, ...(await toHolderOptions({})), "--", "/bin/true"];
  const [program = "", ...args] = argv;
  const options = { env: { PATH: toOuterPath(bwrap) }, timeout: 10_000, cwd: "/" };
  try {
    await run(program, args, options);
    await run("nsenter", ["--version"], options);
    return { available: true };
  } catch (error) {
    return no(await toReason(error as NodeJS.ErrnoException & { stderr?: string }));
  }
}

/** Where bwrap is; undefined where it is not. */
export async function findBwrap(): Promise<string | undefined> {
  for (const folder of [...(process.env["PATH"] ?? "").split(delimiter), ...SYSTEM_PATH]) {
    const file = join(folder, "bwrap");
    const runnable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (runnable && folder.startsWith("/")) return file;
  }
  return undefined;
}

export function toOuterPath(bwrap: string): string {
  return [...new Set([...SYSTEM_PATH, dirname(bwrap)])].join(delimiter);
}

export function toDropPrefix({ uid, gid }: { uid: number; gid: number }): string[] {
  return ["setpriv", "--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
}

async function toReason(failure: NodeJS.ErrnoException & { stderr?: string }): Promise<string> {
  if (failure.code === "ENOENT")
    return `${failure.path ?? "a program"} is missing: apt-get install util-linux`;
  const said = (failure.stderr ?? failure.message).trim().split("\n")[0] ?? "";
  for (const [setting, blocking, remedy] of SETTINGS) {
    const value = await readFile(`/proc/sys/${setting.replaceAll(".", "/")}`, "utf8").catch(() => undefined);
    if (value?.trim() === blocking)
      return `user namespaces are switched off: sysctl -w ${setting}=${remedy} (${said})`;
  }
  return `bubblewrap cannot make a sandbox here: ${said}`;
}

const SETTINGS = [
  ["kernel.unprivileged_userns_clone", "0", "1"],
  ["user.max_user_namespaces", "0", "15000"],
  ["kernel.apparmor_restrict_unprivileged_userns", "1", "0"],
] as const;

function no(reason: string): Detected {
  return { available: false, reason };
}
