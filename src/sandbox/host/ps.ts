import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { ProcessRow } from "./procfs.ts";

const run = promisify(execFile);
const OPTIONS = { env: { PATH: "/bin:/usr/bin:/sbin:/usr/sbin", LC_ALL: "C" }, maxBuffer: 64 * 1024 * 1024 };

/** Every process that lives, as `ps` lists them on any POSIX system. A session counts as its group: macOS tells no more. */
export async function readPs(): Promise<ProcessRow[]> {
  const { stdout } = await run("ps", ["-axo", "pid=,ppid=,pgid=,state=,lstart="], OPTIONS);
  return stdout.split("\n").flatMap((line) => {
    const [pid, parent, group, state = "", ...start] = line.trim().split(/\s+/);
    if (start.length === 0 || state.startsWith("Z")) return [];
    const numbers = {
      pid: Number(pid),
      parent: Number(parent),
      group: Number(group),
      session: Number(group),
    };
    return [{ ...numbers, state: state.slice(0, 1), start: start.join(" ") }];
  });
}

let boot: Promise<string> | undefined;

/** The first process begins with the boot; its start tells one boot from another. */
export function readBootOfSystem(): Promise<string> {
  boot ??= run("ps", ["-o", "lstart=", "-p", "1"], OPTIONS).then(
    ({ stdout }) => stdout.trim(),
    () => "",
  );
  return boot;
}
