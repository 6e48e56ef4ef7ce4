import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { TestServer } from "../support/server.ts";

/** The role of a process of the server under test. */
export type Role = "agent" | "wrapper" | "tail" | "egress" | "caretaker";

export interface Found {
  readonly pid: number;
  readonly role: Role;
  readonly command: string;
  /** Its sandbox or spool, for the report of a finding. */
  readonly of: string;
}

/** Every process that names the server's data folder or one of its sandboxes, and its descendants, without the server. */
export async function findProcesses(server: Pick<TestServer, "data" | "pid">): Promise<Found[]> {
  const sandboxes = await readdir(join(server.data, "sandboxes")).catch(() => []);
  const names = [server.data, ...sandboxes.filter((name) => name.startsWith("sbx_"))];
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const rows = (await Promise.all(pids.map(look))).filter((row) => row !== undefined);
  const others = new Set([1, process.pid, process.ppid, server.pid]);
  const ours = new Set(rows.filter((row) => names.some((name) => row.words.includes(name))).map(toPid));
  for (let before = -1; before !== ours.size;) {
    before = ours.size;
    for (const row of rows) if (ours.has(row.parent) && !others.has(row.parent)) ours.add(row.pid);
  }
  return rows
    .filter(({ pid, command }) => ours.has(pid) && !others.has(pid) && !/\bsluice serve\b/.test(command))
    .map((row) => ({
      pid: row.pid,
      command: row.command,
      role: toRole(row.command),
      of: ownerOf(row, rows),
    }));
}

/** Named by its own command line, else by its parent's. */
function ownerOf(row: Row, rows: readonly Row[]): string {
  const named = /\/spools\/[^/\s]+|sbx_\w+/.exec(row.words)?.[0];
  const parent = rows.find(({ pid }) => pid === row.parent);
  return named ?? (parent === undefined || parent.pid === 1 ? "" : ownerOf(parent, rows));
}

/** Ends the remaining processes of an interrupted run, by id. */
export async function endAll(data: string): Promise<void> {
  for (let found = await findProcesses({ data, pid: -1 }); found.length > 0;) {
    for (const { pid } of found) killIfThere(pid);
    found = await findProcesses({ data, pid: -1 });
  }
}

/** False where the process has ended already. */
export function killIfThere(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    return false;
  }
}

interface Row {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  /** The texts that can name a folder. */
  readonly words: string;
}

function toPid(row: Row): number {
  return row.pid;
}

async function look(pid: number): Promise<Row | undefined> {
  const read = (file: string): Promise<string> => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
  const [line, environment, stat, cwd] = await Promise.all([
    read("cmdline"),
    read("environ"),
    read("stat"),
    readlink(`/proc/${pid}/cwd`).catch(() => ""),
  ]);
  const [, state, parent] = /^\d+ \(.*\) (\S) (\d+)/s.exec(stat) ?? [];
  if (parent === undefined || state === "Z") return undefined;
  const command = line.replaceAll("\0", " ").trim();
  return { pid, parent: Number(parent), command, words: `${command}\n${environment}\n${cwd}` };
}

function toRole(command: string): Role {
  if (command.includes("egress-host")) return "egress";
  if (/^(\/\S*\/)?(tail|cat)( |$)/.test(command) || command.includes("/relay ")) return "tail";
  if (command.includes("pid=$1 start=$2 look=$3") || command.includes("caretaker")) return "caretaker";
  return /^(\S*\/)?bwrap |\/run \//.test(command) ? "wrapper" : "agent";
}
