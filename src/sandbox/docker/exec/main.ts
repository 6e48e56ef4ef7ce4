import { once } from "node:events";
import { writeSync } from "node:fs";
import { dirname } from "node:path";
import { readProcess } from "../../host/processes/procfs.ts";
import {
  FirstLine,
  FrameSplitter,
  inspectExec,
  readExitCode,
  startExec,
  takeTicket,
  writeReport,
  type ExecReport,
} from "./api.ts";

const FAILED = 125;
const KILLED = 137;
/** How often to ask whether the command has ended: a background process may hold its output open. */
const LOOK_MS = 3_000;
const FULL_DISK_MS = 250;

// `node docker-exec.js TICKET` runs a command in a container, with its own stdio as the command's. The spool's wrapper
// starts it, so it outlives the server. It exits with the command's exit code.
process.exitCode = await main(process.argv[2] ?? "").catch((error: unknown) => {
  writeSync(2, `sluice: ${error instanceof Error ? error.message : String(error)}\n`);
  return FAILED;
});
process.exit();

async function main(file: string): Promise<number> {
  const ticket = await takeTicket(file);
  const report = async (fields: Omit<ExecReport, "ticket">): Promise<void> =>
    writeReport(dirname(file), await readOwnGroup(), { ticket: ticket.id, ...fields });
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
    const reason = complaint.trim() === "" ? "" : ` (${complaint.trim()})`;
    await report({ error: `the command ended at once with code ${exitCode}${reason}` });
  }
  await reported;
  return exitCode;
}

/** Writes without a buffer, so that no output is lost. While the disk is full it waits, and so does the agent. */
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

/** The group of this process. It is the pid of the wrapper, by which the server finds the report. */
async function readOwnGroup(): Promise<number> {
  return (await readProcess(process.pid))?.group ?? 0;
}
