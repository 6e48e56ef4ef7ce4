import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { inspectExec, startExec } from "./api.ts";
import { readExitCode } from "./exitCode.ts";
import { FirstLine } from "./firstLine.ts";
import { FrameSplitter } from "./frames.ts";
import { takeTicket, writeReport, type ExecReport } from "./ticket.ts";

/**
 * `node docker-exec.js TICKET`: runs a command in a container with this process's stdio as its own.
 * It stands behind the spool's wrapper, outlives the server like it, and ends as the command ends.
 */
const FAILED = 125;
const KILLED = 137;
/** How often to ask whether the command has ended although something still holds its output open. */
const LOOK_MS = 3_000;
const FULL_DISK_MS = 250;

process.exitCode = await main(process.argv[2] ?? "").catch((error: unknown) => {
  writeSync(2, `sluice: ${error instanceof Error ? error.message : String(error)}\n`);
  return FAILED;
});
process.exit();

async function main(file: string): Promise<number> {
  const ticket = await takeTicket(file);
  const report = (fields: Omit<ExecReport, "ticket">): Promise<void> =>
    writeReport(dirname(file), readOwnGroup(), { ticket: ticket.id, ...fields });
  const { address, spec } = ticket;
  const started = await startExec(address, spec).catch(async (error: Error) => {
    await report({ error: error.message });
    throw error;
  });
  const { id, stream } = started;
  let complaint = "";
  let reported: Promise<void> | undefined;
  const first = new FirstLine((pid) => {
    reported = report(pid === 0 ? { missing: true } : { pid });
  });
  const frames = new FrameSplitter({
    stdout: (chunk) => write(1, first.strip(chunk)),
    stderr: (chunk) => {
      if (!first.isRead) complaint = (complaint + chunk.toString()).slice(0, 300);
      write(2, chunk);
    },
  });
  const closed = once(stream, "close");
  if (ticket.order !== undefined) stream.write(ticket.order);
  stream.on("error", () => {}).on("data", (chunk: Buffer) => frames.push(chunk));
  process.stdin.on("error", () => {}).pipe(stream);
  const look = setInterval(() => {
    void inspectExec(address, id).then(
      ({ Running }) => Running || stream.destroy(),
      () => {},
    );
  }, LOOK_MS);
  await closed;
  clearInterval(look);
  const exitCode = (await readExitCode(address, id)) ?? KILLED;
  if (!first.isRead) {
    const said = complaint.trim();
    const error = `the command ended at once with code ${exitCode}${said === "" ? "" : ` (${said})`}`;
    await report({ error });
  }
  await reported;
  return exitCode;
}

/** Into a file, so nothing is ever left in a buffer. A full disk holds the agent up instead of losing its words. */
function write(fd: number, chunk: Buffer): void {
  for (let rest = chunk; rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOSPC" && code !== "EDQUOT" && code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, code === "EAGAIN" ? 1 : FULL_DISK_MS);
    }
  }
}

/** The group of this process is the one that the server started: the wrapper's. */
function readOwnGroup(): number {
  if (process.platform !== "linux") {
    return Number(execFileSync("/bin/ps", ["-o", "pgid=", "-p", String(process.pid)], { encoding: "utf8" }));
  }
  const stat = readFileSync("/proc/self/stat", "utf8");
  // The second field is the program's name in parentheses, which may hold spaces.
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
}
